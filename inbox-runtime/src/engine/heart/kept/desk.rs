use std::{collections::VecDeque, future::Future, time::Duration};

use futures_util::FutureExt;
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    super::{
        body::{Guard, One, Verdict, body, step},
        inbox::Inbox,
        job::Job,
        known::is_lone,
        left_out::is_durable,
        process::{Finished, Processed, Work},
    },
    between::DiskAt,
    flusher::Epoch,
    queue::Queue,
    session::Session,
};
use crate::{
    engine::contract::{
        database::{Claimed, InboxDatabase, SqlFault},
        trip::{End, Ended, Level, Trip},
    },
    vocabulary::error::ProcessError,
};

/// How long a claim may wait that travels with the commit of another message, whose answer waits with it.
pub(super) const FUSED_WAIT: Duration = Duration::from_millis(20);
/// How long a session is kept without a message.
const IDLE: Duration = Duration::from_secs(10);
/// How long the only connection of a pool is kept while others may wait for it. The pool is fair: it goes to them first.
const SLICE: Duration = Duration::from_millis(20);

/// A worker at its session.
pub(super) struct Desk<'d, 'c, DB: InboxDatabase, W: Work<DB>> {
    pub(super) session: Session<'c, DB>,
    pub(super) at_hand: &'d mut VecDeque<Job<DB, W>>,
    pub(super) queue: &'d Queue<Job<DB, W>>,
    /// Who waits for it.
    pub(super) disk: DiskAt<'d, DB, W>,
    /// Before the next attempt of what is at hand.
    pub(super) pause: &'d mut Duration,
}

/// What a transaction is still open for.
pub(super) enum Pending<DB: InboxDatabase, W: Work<DB>> {
    /// The bodies of these have run.
    Commit { mark: DB::Mark, jobs: Vec<(Job<DB, W>, W::Value)> },
    /// A duplicate whose row may not be on disk.
    Barrier(Box<Met<DB, W>>),
}

pub(super) struct Met<DB: InboxDatabase, W: Work<DB>> {
    job: Job<DB, W>,
    processed: Processed<W::Value>,
}

/// Whether the session is whole, and what it has open now.
pub(super) type Turned<DB, W> = (bool, Option<Pending<DB, W>>);

impl<DB: InboxDatabase, W: Work<DB>> Desk<'_, '_, DB, W> {
    /// Whether the connection is whole, and given back as it was.
    pub(super) async fn work(mut self) -> bool {
        self.work_off().await && self.rest().await && self.session.end().await
    }

    /// Nothing is open, and nothing waits for the disk. Whether the session is whole.
    async fn rest(&mut self) -> bool {
        self.session.rest().await && self.disk.flush(&mut self.session, self.at_hand).await
    }

    /// Until it is time to give the session back; whether it is whole.
    async fn work_off(&mut self) -> bool {
        let retire = retirement(self.session.inbox);
        // Fused: it is asked again after it has said so.
        let mut retire = std::pin::pin!(retire.fuse());
        let mut pending: Option<Pending<DB, W>> = None;
        let mut retires = false;
        loop {
            // Also under load: a pool that closes waits for it.
            retires |= retire.as_mut().now_or_never().is_some();
            if retires && pending.is_none() {
                return true;
            }
            let due = self.disk.is_due();
            if due && pending.is_none() && !self.rest().await {
                return false;
            }
            let next = if pending.is_some() && (retires || due || !self.pause.is_zero()) {
                // What is open is ended first; the pause is for what is at hand.
                None
            } else if let Some(job) = self.at_hand.pop_front() {
                let pause = std::mem::take(self.pause);
                if !pause.is_zero() {
                    if !self.rest().await {
                        self.at_hand.push_front(job);
                        return false;
                    }
                    sleep(pause).await;
                }
                Some(job)
            } else if let Some(job) = self.queue.try_pop() {
                Some(job)
            } else if pending.is_some() {
                None
            } else {
                if !self.rest().await {
                    return false;
                }
                if !self.at_hand.is_empty() {
                    // Not flushed.
                    continue;
                }
                tokio::select! {
                    biased;
                    () = &mut retire => return true,
                    job = self.queue.pop() => match job {
                        Some(job) => Some(job),
                        None => return true,
                    },
                    () = sleep(if is_lone(self.session.inbox.pool()) { Duration::ZERO } else { IDLE }) => return true,
                }
            };
            let next =
                next.and_then(|job| if job.cancel.is_cancelled() { self.over(job, Err(ProcessError::Cancelled)) } else { Some(job) });
            if next.is_none() && pending.is_none() {
                continue;
            }
            let mut jobs = next.map(|job| self.company(job)).unwrap_or_default();
            if Self::linger(&jobs).is_some() {
                let ended = match pending.take() {
                    Some(pending) => self.turn(Some(pending), None).await.0,
                    None => true,
                };
                if !ended || !self.rest().await {
                    self.at_hand.extend(jobs);
                    return false;
                }
                self.fill(&mut jobs).await;
            }
            let (whole, follows) = match jobs.len() {
                0 | 1 => self.turn(pending.take(), jobs.pop()).await,
                _ => self.group(pending.take(), jobs).await,
            };
            if !whole {
                return false;
            }
            pending = follows;
        }
    }

    /// One trip: ends what is pending, claims for the next, and runs its body.
    pub(super) async fn turn(&mut self, pending: Option<Pending<DB, W>>, next: Option<Job<DB, W>>) -> Turned<DB, W> {
        let longest = self.session.inbox.shared.options.claim_wait;
        let wait = if pending.is_some() { FUSED_WAIT.min(longest) } else { longest };
        // Asked before the commit and before the look at a duplicate.
        let since = self.disk.covers();
        let level = if since.is_some() { Level::Later } else { Level::Durable };
        let end = pending.as_ref().map(|pending| match pending {
            Pending::Commit { mark, jobs } => {
                End::Commit { mark, level, by_text: jobs.iter().any(|(job, _)| job.moved || !job.work.ready()) }
            }
            Pending::Barrier(..) => End::Barrier,
        });
        let fused = end.is_some();
        let Trip { ended, claimed, broken, .. } = self.session.trip(end, next.as_ref().map(|job| (&job.order, wait))).await;
        match (pending, ended) {
            (None, _) => {}
            (Some(Pending::Commit { jobs, .. }), Ended::Done) => {
                jobs.into_iter().for_each(|(job, value)| self.once_flushed(job, Processed::applied(value), since));
            }
            (Some(Pending::Barrier(duplicate)), Ended::Done) => self.finish(duplicate.job, Ok(duplicate.processed)),
            (Some(Pending::Commit { jobs, .. }), ended) => self.not_committed(jobs.into_iter().map(|(job, _)| job).collect(), ended),
            (Some(Pending::Barrier(duplicate)), ended) => self.finish(duplicate.job, Err(failed_end::<DB, W>(ended))),
        }
        let Some(mut job) = next else { return (!broken, None) };
        match claimed {
            // Not reached, or not waited for: as if it had just come.
            None => {
                self.at_hand.push_back(job);
                (!broken && self.session.rest().await, None)
            }
            Some(Err(e)) if fused && DB::read(&e) == SqlFault::InFlight => {
                self.at_hand.push_back(job);
                (!broken, None)
            }
            // What the body before has done to the session is not this message's doing.
            Some(Err(e)) if !job.moved && DB::read(&e) == SqlFault::BadSession => {
                job.moved = true;
                self.at_hand.push_back(job);
                (false, None)
            }
            Some(Err(e)) => {
                let (error, known) = match DB::read(&e) {
                    SqlFault::InFlight => (ProcessError::InFlight, true),
                    SqlFault::Conflict => (ProcessError::Conflict(e), true),
                    SqlFault::Busy => (ProcessError::Database(e), true),
                    SqlFault::BadSession | SqlFault::Aborted | SqlFault::Other => (ProcessError::Database(e), false),
                };
                let whole = known && !broken && self.session.rest().await;
                self.finish(job, Err(error));
                (whole, None)
            }
            Some(Ok(Claimed::Duplicate(recorded))) => match Processed::recorded::<DB, W>(&job.order, &recorded) {
                Ok(processed) if !is_durable(&recorded) && since.is_some() => {
                    self.once_flushed(job, processed, since);
                    (true, None)
                }
                Ok(processed) if !is_durable(&recorded) => (true, Some(Pending::Barrier(Box::new(Met { job, processed })))),
                result => {
                    self.finish(job, result);
                    (true, None)
                }
            },
            Some(Ok(Claimed::Fresh(mark))) => self.run(job, mark).await,
        }
    }

    async fn run(&mut self, mut job: Job<DB, W>, mark: DB::Mark) -> Turned<DB, W> {
        let inbox = self.session.inbox;
        let limit = inbox.shared.options.step_timeout;
        if !job.work.ready() {
            let whole = self.session.rest().await;
            self.finish(job, Err(ProcessError::NotCommitted));
            return (whole, None);
        }
        let watch = match step(limit, DB::arm(&mut self.session.tx)).await {
            Ok(watch) => watch,
            Err(e) => {
                self.finish(job, Err(ProcessError::Database(e)));
                return (false, None);
            }
        };
        self.session.used();
        let Job { order, work, cancel, .. } = &mut job;
        let verdict = body(inbox, &mut self.session.tx, &mut One { order, work }, cancel, &watch, &mark, Guard::WithCommit).await;
        let value = match verdict {
            Verdict::Sound(value) => value,
            Verdict::Undo { error, depth, close } => {
                let whole = self.undo(depth, close).await;
                self.finish(job, Err(error));
                return (whole, None);
            }
            Verdict::Gone(error) => {
                self.finish(job, Err(error));
                return (false, None);
            }
        };
        (true, Some(Pending::Commit { mark, jobs: vec![(job, value)] }))
    }

    /// Rolls back and waits for it. What sqlx's own count no longer describes is ended by text, and its connection closed.
    pub(super) async fn undo(&mut self, depth: usize, close: bool) -> bool {
        if depth == 1 && !close {
            return self.session.rest().await;
        }
        let limit = self.session.inbox.shared.options.step_timeout;
        if let Err(error) = step(limit, DB::force_rollback(&mut self.session.tx)).await {
            tracing::debug!(%error, "not rolled back by text; the connection is closed");
        }
        false
    }

    /// What was to be committed and was not, or perhaps.
    fn not_committed(&mut self, mut jobs: Vec<Job<DB, W>>, ended: Ended) {
        match ended {
            Ended::Lost(e) if DB::read(&e) == SqlFault::BadSession && jobs.iter().all(|job| !job.moved && job.work.ready()) => {
                jobs.iter_mut().for_each(|job| job.moved = true);
                self.at_hand.extend(jobs);
            }
            ended => match jobs.pop() {
                Some(job) if jobs.is_empty() => self.finish(job, Err(failed_end::<DB, W>(ended))),
                last => self.group_not_committed(jobs.into_iter().chain(last).collect(), &ended),
            },
        }
    }

    /// Told now, if its commit has waited for the disk.
    pub(super) fn once_flushed(&mut self, job: Job<DB, W>, processed: Processed<W::Value>, since: Option<Epoch>) {
        if let Some((job, processed)) = self.disk.leave(job, processed, since) {
            self.finish(job, Ok(processed));
        }
    }

    pub(super) fn finish(&mut self, job: Job<DB, W>, result: Finished<W::Value, W::Error>) {
        if let Some(job) = self.over(job, result) {
            self.at_hand.push_back(job);
        }
    }

    /// The job again, if it is to be attempted again, after a pause.
    pub(super) fn over(&mut self, job: Job<DB, W>, result: Finished<W::Value, W::Error>) -> Option<Job<DB, W>> {
        let (job, pause) = job.judge(result)?;
        *self.pause = pause.max(*self.pause);
        Some(job)
    }
}

/// What an end that is not as it should be means for its message.
fn failed_end<DB: InboxDatabase, W: Work<DB>>(ended: Ended) -> ProcessError<W::Error> {
    match ended {
        Ended::Escaped => ProcessError::TransactionEscaped,
        Ended::Refused(e) if DB::read(&e) == SqlFault::Conflict => ProcessError::Conflict(e),
        Ended::Refused(e) => ProcessError::CommitRefused(e),
        Ended::Unknown(e) => ProcessError::Unknown(e),
        Ended::Lost(e) => ProcessError::Database(e),
        Ended::Aborted | Ended::Done => ProcessError::SwallowedSqlError,
    }
}

/// When a session is to be given back: its pool is being closed, it is as old as the pool lets a connection grow, or it is the turn of others.
fn retirement<DB: InboxDatabase>(inbox: &Inbox<DB>) -> impl Future<Output = ()> {
    let lone = is_lone(inbox.pool()).then_some(SLICE);
    let longest = lone.into_iter().chain(inbox.pool().options().get_max_lifetime()).min();
    let old = longest.map(|longest| Instant::now() + longest);
    let closing = inbox.pool().close_event();
    async move {
        let aging = async {
            match old {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = aging => {}
            () = closing => {}
        }
    }
}
