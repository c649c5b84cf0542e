//! What is kept for bare pools, so that direct calls share one set of ids in flight and verify their inbox once.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use sqlx::{Connection, Pool};

use super::inbox::Shared;
use crate::{engine::contract::database::InboxDatabase, vocabulary::config::Options};

/// A pool has no identity of its own, but it owns its connect options. The weak pointer keeps their address from being used
/// again, not the pool alive.
struct Known {
    alive: Weak<dyn Any + Send + Sync>,
    shared: Arc<dyn Any + Send + Sync>,
}

static KNOWN: Mutex<Option<HashMap<(TypeId, usize), Known>>> = Mutex::new(None);

pub(super) fn shared_of<DB: InboxDatabase>(pool: &Pool<DB>) -> Arc<Shared<DB>> {
    let options: Arc<<DB::Connection as Connection>::Options> = pool.connect_options();
    let key = (TypeId::of::<DB>(), Arc::as_ptr(&options).addr());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some(found) = known.get(&key).and_then(|known| Arc::clone(&known.shared).downcast().ok()) {
        return found;
    }
    known.retain(|_, pool| pool.alive.strong_count() > 0);
    let shared = Arc::new(Shared::<DB>::new(Options::default()));
    let options: Arc<dyn Any + Send + Sync> = options;
    known.insert(key, Known { alive: Arc::downgrade(&options), shared: Arc::clone(&shared) as Arc<dyn Any + Send + Sync> });
    shared
}
