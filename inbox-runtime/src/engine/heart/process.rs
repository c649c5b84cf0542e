//! A message for a consumer, to its end: attempts, internal retries, and the settling of unknown outcomes.

use std::{convert::Infallible, time::Duration};

use futures_core::future::BoxFuture;
use sqlx::Transaction;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{
    attempt::{attempt, put_back},
    inbox::Inbox,
};
use crate::{
    engine::contract::database::{Claim, InboxDatabase, SqlFault},
    vocabulary::{backoff::Backoff, config::Isolation, error::ProcessError, id::MessageId, outcome::Outcome},
};

/// Before an attempt that follows a serialization failure.
const CONFLICT: Backoff = Backoff::new(Duration::from_millis(4), Duration::from_millis(250));
/// Before an attempt that is to find out what became of a COMMIT.
const SETTLE: Backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(500));

/// Which message, for which consumer, and how.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) name: &'static str,
    /// The name and its aliases, sorted.
    pub(crate) names: Vec<&'static str>,
    pub(crate) isolation: Option<Isolation>,
    pub(crate) timeout: Option<Duration>,
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

/// What the heart runs: a body, and how its answer is kept.
pub(crate) trait Work<DB: InboxDatabase>: Send + 'static {
    type Value: Send + 'static;
    type Error: Send + 'static;

    /// Whether the body can run (again).
    fn ready(&self) -> bool;

    fn run<'a, 'c>(&'a mut self, tx: &'a mut Transaction<'c, DB>) -> BoxFuture<'a, Result<Self::Value, Self::Error>>;

    fn reply(value: &Self::Value) -> Result<Option<String>, serde_json::Error>;

    fn recorded(reply: Option<&str>) -> Result<Self::Value, serde_json::Error>;

    /// The database's error within the body's, where it can be seen.
    fn sql_error(_error: &Self::Error) -> Option<&sqlx::Error> {
        None
    }
}

type Finished<V, E> = Result<Processed<V>, ProcessError<E>>;

/// Runs in a task of its own: `cancel` cuts the body short and nothing else.
pub(crate) async fn process<DB: InboxDatabase, W: Work<DB>>(
    inbox: &Inbox<DB>,
    order: Order,
    work: W,
    cancel: &CancellationToken,
) -> Finished<W::Value, W::Error> {
    inbox.sound().await?;
    let (tell, told) = oneshot::channel();
    let name = order.name;
    tokio::spawn(drive(inbox.clone(), order, work, cancel.clone(), tell).in_current_span());
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

async fn drive<DB: InboxDatabase, W: Work<DB>>(
    inbox: Inbox<DB>,
    order: Order,
    mut work: W,
    cancel: CancellationToken,
    tell: oneshot::Sender<Finished<W::Value, W::Error>>,
) {
    let wait = inbox.shared.options.claim_wait;
    let turn = tokio::select! {
        turn = inbox.shared.in_flight.enter(order.name, order.id.as_uuid(), wait) => turn,
        () = cancel.cancelled() => None,
    };
    let Some(turn) = turn else {
        let gone = cancel.is_cancelled();
        drop(tell.send(Err(if gone { ProcessError::Cancelled } else { ProcessError::InFlight })));
        return;
    };
    let mut patience = Patience::new(&inbox);
    loop {
        let acquired = tokio::select! {
            conn = inbox.pool().acquire() => conn.map_err(ProcessError::Database),
            () = cancel.cancelled() => Err(ProcessError::Cancelled),
        };
        let (result, used) = match acquired {
            Ok(mut conn) => {
                let (result, session) = attempt(&inbox, &mut conn, &order, &mut work, &cancel).await;
                (result, Some((conn, session)))
            }
            Err(e) => (Err(e), None),
        };
        match patience.judge::<DB, W>(&order, result, &work) {
            Next::Finished(result) => {
                // The message's turn ends, and its caller is told, before the connection is put in order.
                drop(turn);
                if matches!(tell.send(result), Err(Err(ProcessError::TransactionEscaped))) {
                    tracing::error!(consumer = order.name, id = %order.id, "{}", ProcessError::<Infallible>::TransactionEscaped);
                }
                if let Some((conn, session)) = used {
                    put_back(&inbox, conn, session).await;
                }
                return;
            }
            Next::Again(pause) => {
                if let Some((conn, session)) = used {
                    put_back(&inbox, conn, session).await;
                }
                sleep(pause).await;
            }
        }
    }
}

enum Next<V, E> {
    Finished(Finished<V, E>),
    Again(Duration),
}

/// How often the same message is attempted within one call.
struct Patience {
    conflicts: u32,
    settle_timeout: Duration,
    /// Since when an unknown commit is being settled, and what its answer was lost to.
    unknown: Option<(Instant, sqlx::Error)>,
    settles: u32,
    repeats: u32,
}

impl Patience {
    fn new<DB: InboxDatabase>(inbox: &Inbox<DB>) -> Self {
        let options = &inbox.shared.options;
        Self { conflicts: options.conflict_retries, settle_timeout: options.settle_timeout, unknown: None, settles: 0, repeats: 0 }
    }

    fn judge<DB: InboxDatabase, W: Work<DB>>(
        &mut self,
        order: &Order,
        result: Finished<W::Value, W::Error>,
        work: &W,
    ) -> Next<W::Value, W::Error> {
        match result {
            Err(ProcessError::Unknown(error)) => {
                tracing::warn!(consumer = order.name, id = %order.id, %error, "the answer to a COMMIT was lost; claiming again to find out");
                let since = self.unknown.take().map_or_else(Instant::now, |(since, _)| since);
                self.unknown = Some((since, error));
                self.settle()
            }
            // An answer that says nothing about the COMMIT before.
            Err(ProcessError::Database(_) | ProcessError::InFlight | ProcessError::Conflict(_)) if self.unknown.is_some() => self.settle(),
            Err(ProcessError::Conflict(_)) if self.conflicts > 0 && work.ready() => self.repeat(),
            Err(ProcessError::Handler(e)) if self.conflicts > 0 && work.ready() && is_conflict::<DB, W>(&e) => self.repeat(),
            // What is asked again after an unknown outcome and fails otherwise did not commit before: the claim was free.
            result => Next::Finished(result),
        }
    }

    /// The outcome of a COMMIT is not known yet: that outlives the call only when time runs out.
    fn settle<V, E>(&mut self) -> Next<V, E> {
        match self.unknown.take() {
            Some((since, error)) if since.elapsed() >= self.settle_timeout => Next::Finished(Err(ProcessError::Unknown(error))),
            unknown => {
                self.unknown = unknown;
                self.settles += 1;
                Next::Again(SETTLE.after(self.settles))
            }
        }
    }

    fn repeat<V, E>(&mut self) -> Next<V, E> {
        self.conflicts -= 1;
        self.repeats += 1;
        Next::Again(CONFLICT.after(self.repeats))
    }
}

fn is_conflict<DB: InboxDatabase, W: Work<DB>>(error: &W::Error) -> bool {
    W::sql_error(error).is_some_and(|e| DB::read(e) == SqlFault::Conflict)
}
