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
    },
};

/// What waits for a worker.
pub(super) type Jobs<DB> = Queue<Job<DB, Call<DB>>>;

/// Each with a session of its own. They outlive this handle until what waits is done: a session is given back in order, or closed.
pub(in crate::engine::services) struct Workers<DB: InboxDatabase> {
    jobs: Arc<Jobs<DB>>,
    tasks: Vec<JoinHandle<()>>,
}

impl<DB: InboxDatabase> Workers<DB> {
    /// As many as are of use and leave the pool one connection for all else; `None` where that is none at all.
    pub(in crate::engine::services) fn start(inbox: &Inbox<DB>, wanted: NonZeroU16) -> Option<Self> {
        let spare = inbox.pool().options().get_max_connections().saturating_sub(1);
        let count = DB::WORKERS.map_or(wanted, |most| most.min(wanted));
        let count = u32::from(count.get()).min(spare);
        if count < u32::from(wanted.get()) {
            tracing::debug!(wanted, count, spare, "fewer workers than asked for");
        }
        let jobs = Arc::<Jobs<DB>>::default();
        let start = |_| tokio::spawn(worker(inbox.clone(), Arc::clone(&jobs)).in_current_span());
        let tasks: Vec<_> = (0..count).map(start).collect();
        if tasks.is_empty() { None } else { Some(Self { jobs, tasks }) }
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
