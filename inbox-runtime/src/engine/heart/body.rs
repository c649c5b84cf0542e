//! The user's body, and what the guard makes of its end.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

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
    engine::contract::database::{Guarded, InboxDatabase, SqlFault},
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

#[expect(clippy::too_many_arguments, reason = "each is a different part of the one step that it stands for")]
pub(super) async fn body<DB: InboxDatabase, W: Work<DB>>(
    inbox: &Inbox<DB>,
    tx: &mut Transaction<'_, DB>,
    order: &Order,
    work: &mut W,
    cancel: &CancellationToken,
    watch: &DB::Watch,
    mark: &DB::Mark,
    guard: Guard,
) -> Verdict<W::Value, W::Error> {
    let (options, sql) = (&inbox.shared.options, &inbox.shared.sql);
    let limit = options.step_timeout;
    let ended = run_body(work, tx, order.timeout.or(options.body_timeout), cancel).await;
    point("after_body");
    let proven = !matches!(ended, BodyEnd::Returned(Ok(_)) if guard == Guard::WithCommit && depth::<DB>(tx) == 1);
    let value = match ended {
        BodyEnd::Returned(Ok(value)) if !proven => value,
        ended => match prove::<DB, W>(inbox, tx, order, watch, mark, ended).await {
            Verdict::Sound(value) => value,
            spoilt => return spoilt,
        },
    };
    let reply = caught(|| W::reply(&value));
    let (error, close) = match reply {
        Ok(Ok(None)) => return Verdict::Sound(value),
        Ok(Ok(Some(reply))) => match step(limit, DB::record_reply(tx, sql, &order.claim(), &reply)).await {
            Ok(1) => return Verdict::Sound(value),
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
    match prove::<DB, W>(inbox, tx, order, watch, mark, BodyEnd::Returned(Ok(value))).await {
        Verdict::Gone(error) => Verdict::Gone(error),
        Verdict::Sound(_) | Verdict::Undo { .. } => Verdict::Undo { error, depth: depth::<DB>(tx), close },
    }
}

/// Asks the database, and says what follows from it.
async fn prove<DB: InboxDatabase, W: Work<DB>>(
    inbox: &Inbox<DB>,
    tx: &mut Transaction<'_, DB>,
    order: &Order,
    watch: &DB::Watch,
    mark: &DB::Mark,
    ended: BodyEnd<W::Value, W::Error>,
) -> Verdict<W::Value, W::Error> {
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
            let broken = W::sql_error(&e).is_some_and(|e| DB::read(e) == SqlFault::BadSession);
            undo(broken, ProcessError::Handler(e))
        }
        (BodyEnd::Panicked(panic), _) => undo(true, ProcessError::Panicked(panic)),
        (BodyEnd::TimedOut(after), _) => undo(true, ProcessError::TimedOut(after)),
        (BodyEnd::Cancelled, _) => undo(true, ProcessError::Cancelled),
    }
}

async fn run_body<DB: InboxDatabase, W: Work<DB>>(
    work: &mut W,
    tx: &mut Transaction<'_, DB>,
    limit: Option<Duration>,
    cancel: &CancellationToken,
) -> BodyEnd<W::Value, W::Error> {
    let body = AssertUnwindSafe(async { work.run(tx).await }).catch_unwind();
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
