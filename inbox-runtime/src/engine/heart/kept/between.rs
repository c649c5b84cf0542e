//! Acks that wait for the disk while the work does not, where there is one writer: between its transactions it makes one commit that waits.
//!
//! What it covers is in one file, so it does not matter which session, or which process, has written it.

use std::{collections::VecDeque, time::Duration};

use sqlx::pool::PoolConnection;
use tokio::time::Instant;

use super::{
    super::{
        body::step,
        inbox::Inbox,
        job::Job,
        left_out::{before_flush, skips_flushes},
        process::{Processed, Work},
    },
    flusher::{Epoch, Flusher, Unflushed, not_on_disk},
    session::Session,
};
use crate::engine::contract::database::{InboxDatabase, SqlFault};

/// So many wait for one commit, and so long the first of them waits while there is more to do and no body runs.
const MOST: usize = 64;
const LONGEST: Duration = Duration::from_millis(5);

/// A message that is applied, now or before, and perhaps not on disk.
pub(super) type Committed<DB, W> = (Job<DB, W>, Processed<<W as Work<DB>>::Value>);

/// Who waits for the disk.
pub(crate) enum Disk<F, B> {
    /// Each commit.
    Commit,
    /// A session next to the workers', for all of them.
    Aside(F),
    /// The worker, between its transactions.
    Between(B),
}

/// As a worker is told.
pub(crate) type DiskOf<DB, W> = Disk<Flusher<DB, W>, ()>;

/// At its session.
pub(super) type DiskAt<'d, DB, W> = Disk<&'d Flusher<DB, W>, &'d mut Between<DB, W>>;

impl<DB: InboxDatabase, W: Work<DB>> Clone for DiskOf<DB, W> {
    fn clone(&self) -> Self {
        match self {
            Self::Commit => Self::Commit,
            Self::Aside(flusher) => Self::Aside(flusher.clone()),
            Self::Between(()) => Self::Between(()),
        }
    }
}

impl<DB: InboxDatabase, W: Work<DB>> DiskAt<'_, DB, W> {
    /// What will cover a commit that is made now; `None`: it waits itself.
    pub(super) fn covers(&self) -> Option<Epoch> {
        match self {
            Self::Commit => None,
            Self::Aside(flusher) => flusher.epoch(),
            Self::Between(_) => Some(Epoch::OWN),
        }
    }

    /// Told once it is on disk. Given back where it is there.
    pub(super) fn leave(&mut self, job: Job<DB, W>, processed: Processed<W::Value>, since: Option<Epoch>) -> Option<Committed<DB, W>> {
        match (self, since) {
            (Self::Aside(flusher), Some(since)) => flusher.leave(Unflushed { job, processed, since }),
            (Self::Between(between), Some(_)) => between.leave(job, processed),
            _ => return Some((job, processed)),
        }
        None
    }

    /// Whether it is time to flush, whatever else there is to do.
    pub(super) fn is_due(&self) -> bool {
        matches!(self, Self::Between(between) if between.is_due())
    }

    /// With the session at rest. Whether it is whole.
    pub(super) async fn flush(&mut self, session: &mut Session<'_, DB>, at_hand: &mut VecDeque<Job<DB, W>>) -> bool {
        match self {
            Self::Between(between) => between.flush(session, at_hand).await,
            _ => true,
        }
    }
}

/// A session whose commits do not wait, and what they have left to be told.
pub(super) struct Between<DB: InboxDatabase, W: Work<DB>> {
    seal: DB::Seal,
    unflushed: Vec<Committed<DB, W>>,
    /// Of the first of them.
    since: Instant,
}

impl<DB: InboxDatabase, W: Work<DB>> Between<DB, W> {
    pub(super) async fn begin(inbox: &Inbox<DB>, conn: &mut PoolConnection<DB>) -> Result<Self, sqlx::Error> {
        let seal = step(inbox.shared.options.step_timeout, DB::seal(conn, &inbox.shared.sql)).await?;
        Ok(Self { seal, unflushed: Vec::new(), since: Instant::now() })
    }

    fn leave(&mut self, job: Job<DB, W>, processed: Processed<W::Value>) {
        if self.unflushed.is_empty() {
            self.since = Instant::now();
        }
        self.unflushed.push((job, processed));
    }

    fn is_due(&self) -> bool {
        self.unflushed.len() >= MOST || !self.unflushed.is_empty() && self.since.elapsed() >= LONGEST
    }

    async fn flush(&mut self, session: &mut Session<'_, DB>, at_hand: &mut VecDeque<Job<DB, W>>) -> bool {
        if self.unflushed.is_empty() {
            return true;
        }
        before_flush().await;
        let shared = &session.inbox.shared;
        let flush = async { if skips_flushes() { Ok(()) } else { DB::flush(&mut session.tx, &shared.sql, &self.seal).await } };
        match step(shared.options.step_timeout, flush).await {
            Ok(()) => {
                self.unflushed.drain(..).for_each(|(job, processed)| drop(job.judge(Ok(processed))));
                true
            }
            Err(error) => {
                tracing::warn!(%error, messages = self.unflushed.len(), "what was committed could not be flushed; it is claimed again");
                self.again(at_hand, &error.to_string());
                DB::read(&error) == SqlFault::Busy
            }
        }
    }

    fn again(&mut self, at_hand: &mut VecDeque<Job<DB, W>>, why: &str) {
        at_hand.extend(self.unflushed.drain(..).filter_map(|(job, _)| not_on_disk(job, why)));
    }

    /// Whether the session is as it was before. What was not flushed is at hand again.
    pub(super) async fn end(
        mut self,
        inbox: &Inbox<DB>,
        conn: &mut PoolConnection<DB>,
        whole: bool,
        at_hand: &mut VecDeque<Job<DB, W>>,
    ) -> bool {
        self.again(at_hand, "its session was lost");
        whole && step(inbox.shared.options.step_timeout, DB::unseal(conn, &inbox.shared.sql, &self.seal)).await.is_ok()
    }
}
