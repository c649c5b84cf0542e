//! A message for a consumer, to its end, on connections of the pool.

use std::{borrow::Cow, time::Duration};

use futures_core::future::BoxFuture;
use sqlx::Transaction;
use tokio::{sync::oneshot, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{
    attempt::{attempt, put_back},
    body::caught,
    inbox::Inbox,
    job::Job,
    kept::queue::Queue,
};
use crate::{
    engine::contract::database::{Claim, InboxDatabase, Recorded},
    vocabulary::{
        config::Isolation,
        error::{BatchFault, ProcessError},
        id::MessageId,
        outcome::Outcome,
    },
};

/// Which message, for which consumer, and how.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) name: &'static str,
    /// The name and its aliases, sorted.
    pub(crate) names: Cow<'static, [&'static str]>,
    pub(crate) isolation: Option<Isolation>,
    pub(crate) timeout: Option<Duration>,
    /// How many messages may share a transaction.
    pub(crate) group: u16,
    /// How long it may wait for them.
    pub(crate) linger: Duration,
    pub(crate) id: MessageId,
    pub(crate) fingerprint: Option<i64>,
}

impl Order {
    pub(crate) fn claim(&self) -> Claim<'_> {
        Claim { names: &self.names, name: self.name, id: self.id.as_uuid(), fingerprint: self.fingerprint }
    }
}

/// A message that is applied, now or before.
#[derive(Debug)]
pub(crate) struct Processed<V> {
    pub(crate) outcome: Outcome<V>,
    /// A duplicate whose payload differs from the one that was applied.
    pub(crate) mismatch: bool,
}

impl<V> Processed<V> {
    pub(super) const fn applied(value: V) -> Self {
        Self { outcome: Outcome::Applied(value), mismatch: false }
    }

    /// What the row of a duplicate says.
    pub(super) fn recorded<DB: InboxDatabase, W: Work<DB, Value = V>>(
        order: &Order,
        recorded: &Recorded,
    ) -> Result<Self, ProcessError<W::Error>> {
        let mismatch = order.fingerprint.zip(recorded.fingerprint).is_some_and(|(ours, theirs)| ours != theirs);
        let value = caught(|| W::recorded(recorded.reply.as_deref())).map_err(ProcessError::Panicked)?.map_err(ProcessError::Reply)?;
        Ok(Self { outcome: Outcome::Duplicate(value), mismatch })
    }
}

/// What the heart runs: a body, and how its answer is kept.
pub(crate) trait Work<DB: InboxDatabase>: Send + 'static {
    type Value: Send + 'static;
    type Error: Send + 'static;

    /// Whether the body can run (again).
    fn ready(&self) -> bool;

    fn run<'a, 'c>(&'a mut self, tx: &'a mut Transaction<'c, DB>) -> BoxFuture<'a, Result<Self::Value, Self::Error>>;

    /// Whether the body is made to take many messages at once.
    fn takes_many(&self) -> bool {
        false
    }

    /// Many at once.
    fn run_many<'a, 'c>(many: Vec<&'a mut Self>, tx: &'a mut Transaction<'c, DB>) -> BoxFuture<'a, RunMany<DB, Self>>
    where
        Self: Sized,
    {
        one_by_one(many, tx)
    }

    fn reply(value: &Self::Value) -> Result<Option<String>, serde_json::Error>;

    fn recorded(reply: Option<&str>) -> Result<Self::Value, serde_json::Error>;

    /// The database's error within the body's, where it can be seen.
    fn sql_error(_error: &Self::Error) -> Option<&sqlx::Error> {
        None
    }
}

/// Many at once, by a body that takes one.
pub(crate) fn one_by_one<'a, DB: InboxDatabase, W: Work<DB>>(
    many: Vec<&'a mut W>,
    tx: &'a mut Transaction<'_, DB>,
) -> BoxFuture<'a, RunMany<DB, W>> {
    Box::pin(async move {
        let mut values = Vec::with_capacity(many.len());
        for work in many {
            values.push(work.run(tx).await.map_err(BatchFault::Any)?);
        }
        Ok(values)
    })
}

/// A value for each, in their order.
pub(crate) type RunMany<DB, W> = Result<Vec<<W as Work<DB>>::Value>, BatchFault<<W as Work<DB>>::Error>>;

pub(super) type Finished<V, E> = Result<Processed<V>, ProcessError<E>>;

/// Given to the workers of this queue, or run in a task of its own on a connection of the pool. Runs to its end whatever becomes of the
/// caller: `cancel` cuts the body short and nothing else.
pub(crate) async fn process<DB: InboxDatabase, W: Work<DB>>(
    inbox: &Inbox<DB>,
    workers: Option<&Queue<Job<DB, W>>>,
    order: Order,
    work: W,
    cancel: &CancellationToken,
) -> Finished<W::Value, W::Error> {
    inbox.sound().await?;
    let (tell, told) = oneshot::channel();
    let name = order.name;
    // On the caller's own time: nobody has begun anything yet.
    if let Some(job) = Job::enter(inbox, order, work, cancel.clone(), tell).await {
        match workers {
            Some(queue) => queue.push(job),
            #[cfg(feature = "_failpoints")]
            None if inbox.shared.options.kept_sessions => {
                let queue = Queue::default();
                queue.push(job);
                queue.close();
                tokio::spawn(
                    super::kept::worker::worker(inbox.clone(), std::sync::Arc::new(queue), super::kept::between::Disk::Commit)
                        .in_current_span(),
                );
            }
            None => drop(tokio::spawn(Box::pin(drive(inbox.clone(), job)).in_current_span())),
        }
    }
    let finished = told.await.unwrap_or_else(|_| {
        // The runtime shuts down, or a panic of ours: no answer is no claim that somebody has cancelled.
        Err(if cancel.is_cancelled() { ProcessError::Cancelled } else { ProcessError::Database(sqlx::Error::WorkerCrashed) })
    });
    count(name, &finished);
    finished
}

fn count<V, E>(consumer: &'static str, finished: &Finished<V, E>) {
    let what = match finished {
        Ok(Processed { outcome: Outcome::Applied(_), .. }) => "inbox_applied_total",
        Ok(Processed { outcome: Outcome::Duplicate(_), .. }) => "inbox_duplicates_total",
        Err(_) => "inbox_failures_total",
    };
    metrics::counter!(what, "consumer" => consumer).increment(1);
    if matches!(finished, Ok(Processed { mismatch: true, .. })) {
        metrics::counter!("inbox_payload_mismatches_total", "consumer" => consumer).increment(1);
    }
}

/// Attempts on connections of the pool, until the caller is told.
async fn drive<DB: InboxDatabase, W: Work<DB>>(inbox: Inbox<DB>, mut job: Job<DB, W>) {
    loop {
        let acquired = tokio::select! {
            conn = inbox.pool().acquire() => conn.map_err(ProcessError::Database),
            () = job.cancel.cancelled() => Err(ProcessError::Cancelled),
        };
        let (result, used) = match acquired {
            Ok(mut conn) => {
                let (result, session) = attempt(&inbox, &mut conn, &job.order, &mut job.work, &job.cancel).await;
                (result, Some((conn, session)))
            }
            Err(e) => (Err(e), None),
        };
        // The caller is told before the connection is put in order.
        let again = job.judge(result);
        if let Some((conn, session)) = used {
            put_back(&inbox, conn, session).await;
        }
        let Some((same, pause)) = again else { return };
        job = same;
        sleep(pause).await;
    }
}
