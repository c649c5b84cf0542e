//! Many messages in one transaction, each with the body as it is, or all with a body that takes many. What goes wrong for one is undone for all,
//! and the group is split until that one stands alone.

use std::{collections::HashMap, time::Duration};

use futures_core::future::BoxFuture;
use sqlx::Transaction;
use tokio::time::{Instant, sleep};

use super::{
    super::{
        body::{Effect, Guard, One, Verdict, body, step},
        job::Job,
        process::{Order, RunMany, Work},
    },
    desk::{Desk, FUSED_WAIT, Pending, Turned},
};
use crate::{
    engine::contract::{
        database::{Claim, InboxDatabase, SqlFault},
        trip::Ended,
    },
    vocabulary::error::{BatchFault, ProcessError},
};

impl<DB: InboxDatabase, W: Work<DB>> Desk<'_, '_, DB, W> {
    /// A job with those that wait and may share its transaction.
    pub(super) fn company(&mut self, first: Job<DB, W>) -> Vec<Job<DB, W>> {
        let (name, limit) = (first.order.name, first.limit);
        let most = usize::from(first.order.group.min(limit));
        let alike = |job: &Job<DB, W>| job.order.name == name && job.limit == limit && !job.cancel.is_cancelled();
        let mut jobs = vec![first];
        while jobs.len() < most
            && let Some(job) = self.at_hand.pop_front_if(|job| alike(job))
        {
            jobs.push(job);
        }
        if jobs.len() < most {
            jobs.extend(self.queue.take(most - jobs.len(), alike));
        }
        jobs
    }

    /// How long more of them are still waited for; none that has been split waits again.
    pub(super) fn linger(jobs: &[Job<DB, W>]) -> Option<Duration> {
        let first = jobs.first()?;
        let left = (first.since + first.order.linger).saturating_duration_since(Instant::now());
        let waits = first.limit == u16::MAX && jobs.len() < usize::from(first.order.group) && !left.is_zero();
        (waits && !jobs.iter().any(|job| job.cancel.is_cancelled())).then_some(left)
    }

    /// With nothing open.
    pub(super) async fn fill(&mut self, jobs: &mut Vec<Job<DB, W>>) {
        const LOOK: Duration = Duration::from_millis(1);
        while let Some(left) = Self::linger(jobs) {
            sleep(left.min(LOOK)).await;
            if let Some(&Order { name, group, .. }) = jobs.first().map(|first| &first.order) {
                let more = self.queue.take(usize::from(group) - jobs.len(), |job| job.order.name == name && job.limit == u16::MAX);
                jobs.extend(more);
            }
        }
    }

    pub(super) async fn group(&mut self, pending: Option<Pending<DB, W>>, jobs: Vec<Job<DB, W>>) -> Turned<DB, W> {
        if pending.is_some() && !self.turn(pending, None).await.0 || !self.session.rest().await {
            self.at_hand.extend(jobs);
            return (false, None);
        }
        let wait = FUSED_WAIT.min(self.session.inbox.shared.options.claim_wait);
        let orders: Vec<&Order> = jobs.iter().map(|job| &job.order).collect();
        let (mark, fresh) = match self.session.claim_many(orders, wait).await {
            Ok(Some(claimed)) => claimed,
            // None is fresh.
            Ok(None) => {
                let whole = self.session.rest().await;
                self.at_hand.extend(jobs.into_iter().map(Job::alone));
                return (whole, None);
            }
            // Whoever writes there does not write for one of them.
            Err(error) if DB::read(&error) == SqlFault::Busy => {
                let mut jobs = jobs.into_iter();
                let first = jobs.next();
                self.at_hand.extend(jobs);
                if let Some(job) = first {
                    self.finish(job, Err(ProcessError::Database(error)));
                }
                return (self.session.rest().await, None);
            }
            Err(error) => {
                tracing::debug!(%error, messages = jobs.len(), "a group could not be claimed");
                let known = matches!(DB::read(&error), SqlFault::InFlight | SqlFault::Conflict);
                let whole = known && self.session.rest().await;
                self.split(jobs);
                return (whole, None);
            }
        };
        let (fresh, known): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| fresh.contains(&job.order.id.as_uuid()));
        // Each takes a trip of its own, and may have a reply.
        self.at_hand.extend(known.into_iter().map(Job::alone));
        if fresh.first().is_some_and(|job| job.work.takes_many()) {
            self.run_batch(mark, fresh).await
        } else {
            self.run_group(mark, fresh).await
        }
    }

    /// One body for all of them.
    async fn run_batch(&mut self, mark: DB::Mark, mut jobs: Vec<Job<DB, W>>) -> Turned<DB, W> {
        self.session.used();
        let inbox = self.session.inbox;
        let watch = match step(inbox.shared.options.step_timeout, DB::arm(&mut self.session.tx)).await {
            Ok(watch) => watch,
            Err(_) => {
                self.split(jobs);
                return (false, None);
            }
        };
        let cancel = jobs.first().map(|job| job.cancel.clone()).unwrap_or_default();
        let verdict = body(inbox, &mut self.session.tx, &mut Many { jobs: &mut jobs }, &cancel, &watch, &mark, Guard::WithCommit).await;
        let (undo, error) = match verdict {
            Verdict::Sound(values) => return (true, Some(Pending::Commit { mark, jobs: jobs.into_iter().zip(values).collect() })),
            Verdict::Undo { error, depth, close } => (Some((depth, close)), error),
            Verdict::Gone(error) => (None, error),
        };
        let whole = match undo {
            Some((depth, close)) => self.undo(depth, close).await,
            None => false,
        };
        match (error, jobs.len()) {
            (ProcessError::Handler(BatchFault::These(first, others)), _) => {
                // The others are attempted again without them.
                let mut faults: HashMap<usize, W::Error> = std::iter::once(first).chain(others).collect();
                for (place, job) in jobs.into_iter().enumerate() {
                    match faults.remove(&place) {
                        Some(fault) => self.finish(job, Err(ProcessError::Handler(fault))),
                        None => self.at_hand.push_back(job),
                    }
                }
            }
            (error, 1) => {
                let alone = jobs.pop().map(|job| (job, error.map(BatchFault::of_one)));
                alone.into_iter().for_each(|(job, error)| self.finish(job, Err(error)));
            }
            (error, _) => self.all_failed(jobs, &error),
        }
        (whole, None)
    }

    /// All that shared a claim, for which it is not known who has spoilt it.
    fn all_failed<E>(&mut self, jobs: Vec<Job<DB, W>>, error: &ProcessError<E>) {
        match error {
            // Which of them did it is not known, and what it has applied, and every claim, may be there.
            ProcessError::TransactionEscaped => {
                jobs.into_iter().for_each(|job| self.finish(job, Err(ProcessError::TransactionEscaped)));
            }
            _ => self.split(jobs),
        }
    }

    async fn run_group(&mut self, mark: DB::Mark, jobs: Vec<Job<DB, W>>) -> Turned<DB, W> {
        self.session.used();
        let mut done: Vec<(Job<DB, W>, W::Value)> = Vec::with_capacity(jobs.len());
        let mut left = jobs.into_iter();
        while let Some(mut job) = left.next() {
            let (undo, error) = match self.run_one_of(&mark, &mut job).await {
                Verdict::Sound(value) => {
                    done.push((job, value));
                    continue;
                }
                Verdict::Undo { error, depth, close } => (Some((depth, close)), error),
                Verdict::Gone(error) => (None, error),
            };
            // All that share the claim, also those whose bodies have not run: what becomes of it becomes of all.
            let mut all: Vec<Job<DB, W>> = done.into_iter().map(|(job, _)| job).chain([job]).chain(left).collect();
            let whole = match undo {
                Some((depth, close)) => self.undo(depth, close).await,
                None => false,
            };
            match all.pop() {
                Some(job) if all.is_empty() => self.finish(job, Err(error)),
                last => self.all_failed(all.into_iter().chain(last).collect(), &error),
            }
            return (whole, None);
        }
        (true, Some(Pending::Commit { mark, jobs: done }))
    }

    async fn run_one_of(&mut self, mark: &DB::Mark, job: &mut Job<DB, W>) -> Verdict<W::Value, W::Error> {
        let inbox = self.session.inbox;
        let watch = match step(inbox.shared.options.step_timeout, DB::arm(&mut self.session.tx)).await {
            Ok(watch) => watch,
            Err(e) => return Verdict::Gone(ProcessError::Database(e)),
        };
        let Job { order, work, cancel, .. } = job;
        body(inbox, &mut self.session.tx, &mut One { order, work }, cancel, &watch, mark, Guard::WithCommit).await
    }

    /// A group whose commit was refused, or of whose commit nothing is known.
    pub(super) fn group_not_committed(&mut self, jobs: Vec<Job<DB, W>>, ended: &Ended) {
        match ended {
            Ended::Escaped => jobs.into_iter().for_each(|job| self.finish(job, Err(ProcessError::TransactionEscaped))),
            Ended::Unknown(error) => {
                for job in jobs.into_iter().map(Job::alone) {
                    let unknown = sqlx::Error::Protocol(format!("the commit of a group: {error}"));
                    self.finish(job, Err(ProcessError::Unknown(unknown)));
                }
            }
            Ended::Aborted | Ended::Refused(_) | Ended::Lost(_) | Ended::Done => self.split(jobs),
        }
    }

    /// In two halves, each of which is attempted again; one alone is told.
    fn split(&mut self, mut jobs: Vec<Job<DB, W>>) {
        let half = u16::try_from(jobs.len().div_ceil(2)).unwrap_or(u16::MAX);
        tracing::debug!(messages = jobs.len(), half, "a group is split");
        jobs.iter_mut().for_each(|job| job.limit = half.min(job.limit.saturating_sub(1)).max(1));
        self.at_hand.extend(jobs);
    }
}

/// The body of many messages.
struct Many<'j, DB: InboxDatabase, W: Work<DB>> {
    /// Never empty.
    jobs: &'j mut [Job<DB, W>],
}

impl<DB: InboxDatabase, W: Work<DB>> Effect<DB> for Many<'_, DB, W> {
    type Value = Vec<W::Value>;
    type Error = BatchFault<W::Error>;

    fn order(&self) -> &Order {
        let first = self.jobs.first().expect("a batch has a message");
        &first.order
    }

    fn run<'a, 'c>(&'a mut self, tx: &'a mut Transaction<'c, DB>) -> BoxFuture<'a, RunMany<DB, W>> {
        W::run_many(self.jobs.iter_mut().map(|job| &mut job.work).collect(), tx)
    }

    fn replies(&self, values: &Vec<W::Value>) -> Result<Vec<(Claim<'_>, String)>, serde_json::Error> {
        let mut replies = Vec::new();
        for (job, value) in self.jobs.iter().zip(values) {
            replies.extend(W::reply(value)?.map(|reply| (job.order.claim(), reply)));
        }
        Ok(replies)
    }

    fn sql_error(error: &BatchFault<W::Error>) -> Option<&sqlx::Error> {
        match error {
            BatchFault::Any(error) => W::sql_error(error),
            BatchFault::These(..) => None,
        }
    }
}
