use std::{num::NonZeroU16, sync::Arc};

use tokio::task::JoinHandle;
use tracing::Instrument;

use super::call::Call;
use crate::engine::{
    contract::database::InboxDatabase,
    heart::{
        inbox::Inbox,
        job::Job,
        kept::{queue::Queue, worker::worker},
        known::Kept,
    },
};

/// What waits for a worker.
pub(super) type Jobs<DB> = Queue<Job<DB, Call<DB>>>;

/// Each with a session of its own. They outlive this handle until what waits is done: a session is given back in order, or closed.
pub(in crate::engine::services) struct Workers<DB: InboxDatabase> {
    jobs: Arc<Jobs<DB>>,
    tasks: Vec<JoinHandle<()>>,
    _kept: Kept,
}

impl<DB: InboxDatabase> Workers<DB> {
    /// As many as are of use and leave the pool one connection for all else; `None` where that is none at all.
    pub(in crate::engine::services) fn start(inbox: &Inbox<DB>, wanted: NonZeroU16) -> Option<Self> {
        let useful = DB::WORKERS.map_or(wanted, |most| most.min(wanted));
        let kept = Kept::of(inbox.pool(), useful.get().into());
        if kept.count() < useful.get().into() {
            tracing::info!(wanted, workers = kept.count(), "fewer workers than asked for: the pool has no more connections to keep");
        }
        let jobs = Arc::<Jobs<DB>>::default();
        let start = |_| tokio::spawn(worker(inbox.clone(), Arc::clone(&jobs)).in_current_span());
        let tasks: Vec<_> = (0..kept.count()).map(start).collect();
        if tasks.is_empty() { None } else { Some(Self { jobs, tasks, _kept: kept }) }
    }

    pub(super) fn jobs(&self) -> Arc<Jobs<DB>> {
        Arc::clone(&self.jobs)
    }

    /// Nobody begins what still waits.
    pub(in crate::engine::services) fn withdraw(&self) {
        self.jobs.drain().into_iter().for_each(Job::withdraw);
    }

    /// Ends when every session is given back.
    pub(in crate::engine::services) async fn stop(mut self) {
        self.jobs.close();
        for task in std::mem::take(&mut self.tasks) {
            if let Err(error) = task.await {
                tracing::error!(%error, "a worker died");
            }
        }
    }
}

impl<DB: InboxDatabase> Drop for Workers<DB> {
    fn drop(&mut self) {
        self.jobs.close();
    }
}
