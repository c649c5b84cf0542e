//! The user's body, and what the guard makes of its end.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use futures_core::future::BoxFuture;
use futures_util::FutureExt;
use sqlx::{Connection, Transaction};
use sqlx_core::transaction::TransactionManager;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    inbox::Inbox,
    probe::point,
    process::{Order, Work},
};
use crate::{
    engine::contract::database::{Claim, Guarded, InboxDatabase, SqlFault},
    vocabulary::error::{PanicPayload, ProcessError},
};

/// How a body came to its end.
enum BodyEnd<V, E> {
    Returned(Result<V, E>),
    Panicked(PanicPayload),
    TimedOut(Duration),
    Cancelled,
}

impl<V, E> BodyEnd<V, E> {
    const fn was_cut(&self) -> bool {
        matches!(self, Self::TimedOut(_) | Self::Cancelled)
    }

    const fn failed(&self) -> bool {
        !matches!(self, Self::Returned(Ok(_)))
    }
}

/// When it is proven that the open transaction is still the claim's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guard {
    /// Now.
    First,
    /// With the COMMIT, if the body has returned `Ok`.
    WithCommit,
}

/// What is to follow a body.
pub(super) enum Verdict<V, E> {
    /// COMMIT. Its reply, if it has one, is recorded.
    Sound(V),
    /// ROLLBACK, at this depth by sqlx's count; the connection is closed then if its state cannot be trusted.
    Undo { error: ProcessError<E>, depth: usize, close: bool },
    /// Nothing: the connection is closed as it is.
    Gone(ProcessError<E>),
}

/// What runs between a claim and its guard: a body, with its message or many.
pub(super) trait Effect<DB: InboxDatabase>: Send {
    type Value: Send;
    type Error: Send;

    /// A message of it: whose body it is, and how long it may run.
    fn order(&self) -> &Order;

    fn run<'a, 'c>(&'a mut self, tx: &'a mut Transaction<'c, DB>) -> BoxFuture<'a, Result<Self::Value, Self::Error>>;

    /// What is to be recorded, and where.
    fn replies(&self, value: &Self::Value) -> Result<Vec<(Claim<'_>, String)>, serde_json::Error>;

    fn sql_error(error: &Self::Error) -> Option<&sqlx::Error>;
}

/// The body of one message.
pub(super) struct One<'j, W> {
    pub(super) order: &'j Order,
    pub(super) work: &'j mut W,
}

impl<DB: InboxDatabase, W: Work<DB>> Effect<DB> for One<'_, W> {
    type Value = W::Value;
    type Error = W::Error;

    fn order(&self) -> &Order {
        self.order
    }

    fn run<'a, 'c>(&'a mut self, tx: &'a mut Transaction<'c, DB>) -> BoxFuture<'a, Result<W::Value, W::Error>> {
        self.work.run(tx)
    }

    fn replies(&self, value: &W::Value) -> Result<Vec<(Claim<'_>, String)>, serde_json::Error> {
        Ok(W::reply(value)?.map(|reply| (self.order.claim(), reply)).into_iter().collect())
    }

    fn sql_error(error: &W::Error) -> Option<&sqlx::Error> {
        W::sql_error(error)
    }
}

pub(super) async fn body<DB: InboxDatabase, B: Effect<DB>>(
    inbox: &Inbox<DB>,
    tx: &mut Transaction<'_, DB>,
    effect: &mut B,
    cancel: &CancellationToken,
    watch: &DB::Watch,
    mark: &DB::Mark,
    guard: Guard,
) -> Verdict<B::Value, B::Error> {
    let (options, sql) = (&inbox.shared.options, &inbox.shared.sql);
    let limit = options.step_timeout;
    let may_run = effect.order().timeout.or(options.body_timeout);
    let ended = run_body(effect, tx, may_run, cancel).await;
    point("after_body");
    let proven = !matches!(ended, BodyEnd::Returned(Ok(_)) if guard == Guard::WithCommit && depth::<DB>(tx) == 1);
    let value = match ended {
        BodyEnd::Returned(Ok(value)) if !proven => value,
        ended => match prove::<DB, B>(inbox, tx, effect.order(), watch, mark, ended).await {
            Verdict::Sound(value) => value,
            spoilt => return spoilt,
        },
    };
    let replies = caught(|| effect.replies(&value));
    let (error, close) = match replies {
        Ok(Ok(replies)) if replies.is_empty() => return Verdict::Sound(value),
        Ok(Ok(replies)) => match step(limit, DB::record_replies(tx, sql, &replies)).await {
            Ok(recorded) if recorded == replies.len() as u64 => return Verdict::Sound(value),
            Ok(_) => return Verdict::Gone(ProcessError::TransactionEscaped),
            Err(e) if DB::read(&e) == SqlFault::Aborted => (ProcessError::SwallowedSqlError, false),
            Err(e) => (ProcessError::CommitRefused(e), false),
        },
        Ok(Err(e)) => (ProcessError::Reply(e), false),
        Err(panic) => (ProcessError::Panicked(panic), true),
    };
    if proven {
        return Verdict::Undo { error, depth: 1, close };
    }
    // Nothing is rolled back before it is known whose transaction it is.
    match prove::<DB, B>(inbox, tx, effect.order(), watch, mark, BodyEnd::Returned(Ok(value))).await {
        Verdict::Gone(error) => Verdict::Gone(error),
        Verdict::Sound(_) | Verdict::Undo { .. } => Verdict::Undo { error, depth: depth::<DB>(tx), close },
    }
}

/// Asks the database, and says what follows from it.
async fn prove<DB: InboxDatabase, B: Effect<DB>>(
    inbox: &Inbox<DB>,
    tx: &mut Transaction<'_, DB>,
    order: &Order,
    watch: &DB::Watch,
    mark: &DB::Mark,
    ended: BodyEnd<B::Value, B::Error>,
) -> Verdict<B::Value, B::Error> {
    let (sql, limit) = (&inbox.shared.sql, inbox.shared.options.step_timeout);
    // The body's future is gone; from here on nothing else talks to this session, and no cancel request is under way later.
    if ended.was_cut()
        && let Err(error) = timeout(limit, DB::cut(inbox.pool(), watch, mark)).await.unwrap_or_else(|late| Err(late.into()))
    {
        tracing::warn!(consumer = order.name, id = %order.id, %error, "the body's statement could not be cancelled on the server");
    }
    // What sqlx makes of a nested `begin()` that was cancelled: a ROLLBACK of everything. While it is still to be sent, nothing ran behind it.
    let (given_up, failed) = (depth::<DB>(tx) == 0 && tx.should_flush(), ended.failed());
    let guarded = timeout(limit, async { if given_up { DB::fate(tx, mark).await } else { DB::guard(tx, sql, mark, failed).await } });
    let guarded = guarded.await.unwrap_or_else(|late| Guarded::Lost(sqlx::Error::Io(late.into())));
    point("after_guard");

    // Counted only now: a nested transaction that was dropped has gone with what was sent since.
    let depth = depth::<DB>(tx);
    let undo = |close, error| Verdict::Undo { error, depth, close };
    match (ended, guarded) {
        (_, Guarded::Escaped) => Verdict::Gone(ProcessError::TransactionEscaped),
        _ if depth == 0 && !given_up => Verdict::Gone(ProcessError::TransactionEscaped),
        (BodyEnd::Returned(Ok(value)), Guarded::Sound) if depth == 1 => Verdict::Sound(value),
        (BodyEnd::Returned(Ok(_)), Guarded::Sound) => undo(true, ProcessError::NestedTransactionLeft),
        (BodyEnd::Returned(Ok(_)), Guarded::Aborted) => undo(false, ProcessError::SwallowedSqlError),
        (BodyEnd::Returned(_), Guarded::Lost(e)) => Verdict::Gone(ProcessError::Database(e)),
        (BodyEnd::Returned(Err(e)), _) => {
            let broken = B::sql_error(&e).is_some_and(|e| DB::read(e) == SqlFault::BadSession);
            undo(broken, ProcessError::Handler(e))
        }
        (BodyEnd::Panicked(panic), _) => undo(true, ProcessError::Panicked(panic)),
        (BodyEnd::TimedOut(after), _) => undo(true, ProcessError::TimedOut(after)),
        (BodyEnd::Cancelled, _) => undo(true, ProcessError::Cancelled),
    }
}

async fn run_body<DB: InboxDatabase, B: Effect<DB>>(
    effect: &mut B,
    tx: &mut Transaction<'_, DB>,
    limit: Option<Duration>,
    cancel: &CancellationToken,
) -> BodyEnd<B::Value, B::Error> {
    let body = AssertUnwindSafe(async { effect.run(tx).await }).catch_unwind();
    let late = async {
        match limit {
            Some(limit) => {
                sleep(limit).await;
                limit
            }
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        ended = body => match ended {
            Ok(result) => BodyEnd::Returned(result),
            Err(panic) => BodyEnd::Panicked(PanicPayload::new(panic)),
        },
        limit = late => BodyEnd::TimedOut(limit),
        () = cancel.cancelled() => BodyEnd::Cancelled,
    }
}

/// What the user's own (de)serialization may do as well.
pub(super) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, PanicPayload> {
    catch_unwind(AssertUnwindSafe(work)).map_err(PanicPayload::new)
}

fn depth<DB: InboxDatabase>(conn: &DB::Connection) -> usize {
    DB::TransactionManager::get_transaction_depth(conn)
}

/// Bounds a step of ours. When it passes, the connection is closed, so that cancelling the step cannot hurt anyone.
pub(super) async fn step<T>(limit: Duration, what: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    let late = || sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, format!("no answer within {limit:?}")));
    timeout(limit, what).await.unwrap_or_else(|_| Err(late()))
}
