use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

type Key = (&'static str, Uuid);

/// The messages that this process has under way, so that a duplicate waits without holding a connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct InFlight {
    /// Each with what tells those who wait for it, if somebody does.
    turns: Arc<Mutex<HashMap<Key, Option<CancellationToken>>>>,
}

/// While it lives, nobody else in this process works on the same message for the same consumer.
#[derive(Debug)]
pub(crate) struct Turn {
    set: InFlight,
    key: Key,
}

impl InFlight {
    /// Waits up to `wait` for its turn. Cancel safe.
    pub(crate) async fn enter(&self, consumer: &'static str, id: Uuid, wait: Duration) -> Option<Turn> {
        let (key, deadline) = ((consumer, id), Instant::now() + wait);
        loop {
            let done = match self.lock().entry(key) {
                Entry::Vacant(free) => {
                    free.insert(None);
                    return Some(Turn { set: self.clone(), key });
                }
                Entry::Occupied(taken) => taken.into_mut().get_or_insert_default().clone(),
            };
            timeout_at(deadline, done.cancelled()).await.ok()?;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Option<CancellationToken>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(Some(done)) = self.set.lock().remove(&self.key) {
            done.cancel();
        }
    }
}
