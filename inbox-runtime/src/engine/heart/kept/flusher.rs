//! Acks that wait for the disk while the work does not. The log is sequential, so one commit that waits for it makes all durable that committed
//! before it began: in this database, on its synchronous standbys too.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use sqlx::pool::PoolConnection;
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::sleep,
};

use super::{
    super::{
        attempt::{Keep, put_back},
        body::step,
        inbox::Inbox,
        job::Job,
        left_out::{before_flush, skips_flushes, trusts_any_session},
        process::{Processed, Work},
    },
    queue::Queue,
};
use crate::{
    engine::contract::database::InboxDatabase,
    vocabulary::{backoff::Backoff, error::ProcessError},
};

/// Before a session is opened after one that was lost.
const REOPEN: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));

/// A session of the flusher, by number; a crash of the database ends it. What was committed while it was open is on disk once it has committed
/// durably itself. A barrier on a session that was opened later says nothing: what it is to cover may have been lost in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Epoch(u64);

impl Epoch {
    /// Of a worker that flushes for itself.
    pub(super) const OWN: Self = Self(0);
}

/// Committed, or seen committed, and perhaps not on disk yet.
pub(super) struct Unflushed<DB: InboxDatabase, W: Work<DB>> {
    pub(super) job: Job<DB, W>,
    pub(super) processed: Processed<W::Value>,
    /// The session that was open before.
    pub(super) since: Epoch,
}

/// Where workers leave what is to be told once it is on disk.
pub(crate) struct Flusher<DB: InboxDatabase, W: Work<DB>> {
    waiting: UnboundedSender<Unflushed<DB, W>>,
    /// Of the session that is open; 0: none.
    open: Arc<AtomicU64>,
}

impl<DB: InboxDatabase, W: Work<DB>> Flusher<DB, W> {
    /// It, and the task that works for it until the last clone is dropped. What could not be made certain goes back to the queue.
    pub(crate) fn new(inbox: &Inbox<DB>, queue: &Arc<Queue<Job<DB, W>>>) -> (Self, impl Future<Output = ()> + Send + use<DB, W>) {
        let (waiting, received) = unbounded_channel();
        let open = Arc::<AtomicU64>::default();
        let task = Flushing { inbox: inbox.clone(), queue: Arc::clone(queue), received, open: Arc::clone(&open) };
        (Self { waiting, open }, task.run())
    }

    /// The session that is open now, if one is: ask before the work that it is to cover.
    pub(super) fn epoch(&self) -> Option<Epoch> {
        let open = self.open.load(Ordering::SeqCst);
        (open > 0).then_some(Epoch(open))
    }

    pub(super) fn leave(&self, unflushed: Unflushed<DB, W>) {
        // Without the task the caller is told by the job's end that nobody knows.
        drop(self.waiting.send(unflushed));
    }
}

impl<DB: InboxDatabase, W: Work<DB>> Clone for Flusher<DB, W> {
    fn clone(&self) -> Self {
        Self { waiting: self.waiting.clone(), open: Arc::clone(&self.open) }
    }
}

struct Flushing<DB: InboxDatabase, W: Work<DB>> {
    inbox: Inbox<DB>,
    queue: Arc<Queue<Job<DB, W>>>,
    received: UnboundedReceiver<Unflushed<DB, W>>,
    open: Arc<AtomicU64>,
}

impl<DB: InboxDatabase, W: Work<DB>> Flushing<DB, W> {
    async fn run(mut self) {
        let (mut failed, mut last): (u32, u64) = (0, 0);
        loop {
            last += 1;
            match self.begin().await {
                Ok((conn, sealed)) => {
                    failed = 0;
                    self.open.store(last, Ordering::SeqCst);
                    let ended = self.serve(conn, &sealed, Epoch(last)).await;
                    if ended {
                        return;
                    }
                }
                Err(error) => {
                    failed = failed.saturating_add(1);
                    tracing::warn!(%error, failed, "no session to flush on; workers wait for the disk themselves");
                    // What an earlier session has left is not covered by the next.
                    while let Ok(unflushed) = self.received.try_recv() {
                        self.again(unflushed, "no session to flush on");
                    }
                    if self.received.is_closed() && self.received.is_empty() {
                        return;
                    }
                    sleep(REOPEN.after(failed)).await;
                }
            }
        }
    }

    async fn begin(&self) -> Result<(PoolConnection<DB>, DB::Seal), sqlx::Error> {
        let mut conn = self.inbox.pool().acquire().await?;
        match step(self.inbox.shared.options.step_timeout, DB::seal(&mut conn, &self.inbox.shared.sql)).await {
            Ok(seal) => Ok((conn, seal)),
            Err(error) => {
                conn.close_on_drop();
                Err(error)
            }
        }
    }

    /// One session. Whether all is done.
    async fn serve(&mut self, mut conn: PoolConnection<DB>, seal: &DB::Seal, epoch: Epoch) -> bool {
        let limit = self.inbox.shared.options.step_timeout;
        let mut closing = std::pin::pin!(self.inbox.pool().close_event());
        let mut batch = Vec::new();
        loop {
            batch.clear();
            let received = tokio::select! {
                biased;
                received = self.received.recv_many(&mut batch, usize::MAX) => received,
                // A pool that closes waits for this session. From now on workers wait for the disk themselves; what they left meanwhile is claimed again.
                () = &mut closing => {
                    self.open.store(0, Ordering::SeqCst);
                    put_back(&self.inbox, conn, Keep::Broken).await;
                    return false;
                }
            };
            if received == 0 {
                let clean = step(limit, DB::unseal(&mut conn, &self.inbox.shared.sql, seal)).await.is_ok();
                put_back(&self.inbox, conn, if clean { Keep::Untouched } else { Keep::Broken }).await;
                return true;
            }
            before_flush().await;
            let flush = async { if skips_flushes() { Ok(()) } else { DB::flush(&mut conn, &self.inbox.shared.sql, seal).await } };
            let flushed = step(limit, flush).await;
            if flushed.is_err() {
                // First of all, so that nobody relies on it any more.
                self.open.store(0, Ordering::SeqCst);
            }
            for unflushed in batch.drain(..) {
                match &flushed {
                    Ok(()) if unflushed.since == epoch || trusts_any_session() => drop(unflushed.job.judge(Ok(unflushed.processed))),
                    Ok(()) => self.again(unflushed, "committed before the session that flushes was opened"),
                    Err(error) => self.again(unflushed, &error.to_string()),
                }
            }
            if let Err(error) = flushed {
                tracing::warn!(%error, "the session that flushes is lost; what it had not confirmed is claimed again");
                put_back(&self.inbox, conn, Keep::Broken).await;
                return false;
            }
        }
    }

    fn again(&self, unflushed: Unflushed<DB, W>, why: &str) {
        if let Some(job) = not_on_disk(unflushed.job, why) {
            self.queue.push(job);
        }
    }
}

/// It may be there or not: its next claim finds out.
pub(super) fn not_on_disk<DB: InboxDatabase, W: Work<DB>>(job: Job<DB, W>, why: &str) -> Option<Job<DB, W>> {
    let unknown = ProcessError::Unknown(sqlx::Error::Protocol(format!("not known to be on disk: {why}")));
    job.judge(Err(unknown)).map(|(job, _pause)| job)
}
