//! What is kept for a pool: the inbox of a bare one, so that direct calls share one set of ids in flight and verify it once, and how many of its
//! connections workers may keep.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU32, Ordering},
    },
};

use sqlx::{Connection, Pool};

use super::inbox::Shared;
use crate::{engine::contract::database::InboxDatabase, vocabulary::config::Options};

/// A pool has no identity of its own, but it owns its connect options. The weak pointer keeps their address from being used
/// again, not the pool alive.
struct Known {
    alive: Weak<dyn Any + Send + Sync>,
    what: Arc<dyn Any + Send + Sync>,
}

static KNOWN: Mutex<Option<HashMap<(TypeId, usize), Known>>> = Mutex::new(None);

pub(super) fn shared_of<DB: InboxDatabase>(pool: &Pool<DB>) -> Arc<Shared<DB>> {
    of(pool, || Shared::<DB>::new(Options::default()))
}

fn of<DB: InboxDatabase, T: Send + Sync + 'static>(pool: &Pool<DB>, make: impl FnOnce() -> T) -> Arc<T> {
    let options: Arc<<DB::Connection as Connection>::Options> = pool.connect_options();
    let key = (TypeId::of::<T>(), Arc::as_ptr(&options).addr());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some(found) = known.get(&key).and_then(|known| Arc::clone(&known.what).downcast().ok()) {
        return found;
    }
    known.retain(|_, pool| pool.alive.strong_count() > 0);
    let what = Arc::new(make());
    let options: Arc<dyn Any + Send + Sync> = options;
    known.insert(key, Known { alive: Arc::downgrade(&options), what: Arc::clone(&what) as Arc<dyn Any + Send + Sync> });
    what
}

/// Whether a pool has one connection, for which all take turns.
pub(super) fn is_lone<DB: InboxDatabase>(pool: &Pool<DB>) -> bool {
    pool.options().get_max_connections() == 1
}

/// Connections of a pool that workers may keep, until it is dropped. Several runners share a pool; if together they kept all of it, some would
/// never get one.
#[derive(Debug)]
pub(crate) struct Kept {
    count: u32,
    of_all: Arc<AtomicU32>,
}

impl Kept {
    /// Up to `wanted` of this pool; one is left for all else. Where one is all that is of use and all that there is, it is shared by turns.
    pub(crate) fn of<DB: InboxDatabase>(pool: &Pool<DB>, wanted: u32) -> Self {
        let shared = is_lone(pool) && DB::WORKERS.is_some();
        let most = if shared { 1 } else { pool.options().get_max_connections().saturating_sub(1) };
        let of_all = of(pool, || AtomicU32::new(0));
        let free = |taken: u32| wanted.min(most.saturating_sub(taken));
        let taken = of_all.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |taken| Some(taken + free(taken)));
        let count = free(taken.unwrap_or_else(|taken| taken));
        Self { count, of_all }
    }

    pub(crate) const fn count(&self) -> u32 {
        self.count
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.of_all.fetch_sub(self.count, Ordering::SeqCst);
    }
}
