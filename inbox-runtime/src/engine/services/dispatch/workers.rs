use std::{num::NonZeroU16, sync::Arc};

use tokio::task::JoinHandle;
use tracing::Instrument;

use super::call::Call;
use crate::engine::{
    contract::database::{Flushes, InboxDatabase},
    heart::{
        inbox::Inbox,
        job::Job,
        kept::{between::Disk, flusher::Flusher, queue::Queue, worker::worker},
        known::Kept,
    },
};
use crate::vocabulary::config::Durability;

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
    pub(in crate::engine::services) fn start(inbox: &Inbox<DB>, wanted: NonZeroU16, durability: Durability) -> Option<Self> {
        let useful = DB::WORKERS.map_or(wanted, |most| most.min(wanted));
        let later = durability == Durability::BeforeAck;
        let flushes = later && DB::FLUSHES == Flushes::Aside;
        let kept = Kept::of(inbox.pool(), u32::from(useful.get()) + u32::from(flushes));
        // A flusher without a worker is of no use.
        let flushes = flushes && kept.count() > 1;
        let count = kept.count() - u32::from(flushes);
        if count < useful.get().into() {
            tracing::info!(wanted, workers = count, "fewer workers than asked for: the pool has no more connections to keep");
        }
        let jobs = Arc::<Jobs<DB>>::default();
        let mut tasks = Vec::new();
        let disk = if flushes {
            let (flusher, task) = Flusher::new(inbox, &jobs);
            tasks.push(tokio::spawn(task.in_current_span()));
            Disk::Aside(flusher)
        } else if later && DB::FLUSHES == Flushes::Between {
            Disk::Between(())
        } else {
            Disk::Commit
        };
        let start = |_| tokio::spawn(worker(inbox.clone(), Arc::clone(&jobs), disk.clone()).in_current_span());
        tasks.extend((0..count).map(start));
        if count == 0 { None } else { Some(Self { jobs, tasks, _kept: kept }) }
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
