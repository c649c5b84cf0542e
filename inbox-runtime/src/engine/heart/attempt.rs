//! One attempt on one connection: the order of the heart, and nothing else.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use futures_util::FutureExt;
use sqlx::{Connection, Transaction, pool::PoolConnection};
use sqlx_core::transaction::TransactionManager;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    inbox::Inbox,
    probe::point,
    process::{Order, Processed, Work},
};
use crate::{
    engine::contract::database::{Claimed, Guarded, InboxDatabase, Recorded, SqlFault},
    vocabulary::{
        error::{PanicPayload, ProcessError},
        outcome::Outcome,
    },
};

/// What is to become of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Session {
    /// No body ran on it: back to the pool.
    Untouched,
    /// A body ran on it: reset it first.
    Used,
    /// Its state is not known, or was cut: close it.
    Broken,
}

type Ended<V, E> = (Result<Processed<V>, ProcessError<E>>, Session);

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

/// Bounds a step of ours. When it passes, the connection is closed, so that cancelling the step cannot hurt anyone.
async fn step<T>(limit: Duration, what: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    let late = || sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, format!("no answer within {limit:?}")));
    timeout(limit, what).await.unwrap_or_else(|_| Err(late()))
}

pub(super) async fn attempt<DB: InboxDatabase, W: Work<DB>>(
    inbox: &Inbox<DB>,
    conn: &mut PoolConnection<DB>,
    order: &Order,
    work: &mut W,
    cancel: &CancellationToken,
) -> Ended<W::Value, W::Error> {
    let (options, sql) = (&inbox.shared.options, &inbox.shared.sql);
    let limit = options.step_timeout;
    let claim = order.claim();

    let watch = match step(limit, DB::arm(conn)).await {
        Ok(watch) => watch,
        Err(e) => return (Err(ProcessError::Database(e)), Session::Broken),
    };
    let mut tx = match step(limit, conn.begin_with(DB::begin(order.isolation))).await {
        Ok(tx) => tx,
        // A writer that is busy left nothing open.
        Err(e) if DB::read(&e) == SqlFault::Busy => return (Err(ProcessError::Database(e)), Session::Untouched),
        Err(e) => return (Err(ProcessError::Database(e)), Session::Broken),
    };
    point("after_begin");

    let claimed = step(limit + options.claim_wait, DB::claim(&mut tx, sql, &claim)).await;
    let mark = match claimed {
        Ok(Claimed::Fresh(mark)) => mark,
        Ok(Claimed::Duplicate(recorded)) => {
            point("after_claim");
            return duplicate::<DB, W>(limit, tx, sql, order, recorded).await;
        }
        Err(e) => {
            let (error, keep) = match DB::read(&e) {
                SqlFault::InFlight => (ProcessError::InFlight, true),
                SqlFault::Conflict => (ProcessError::Conflict(e), true),
                SqlFault::Busy => (ProcessError::Database(e), true),
                SqlFault::BadSession | SqlFault::Other => (ProcessError::Database(e), false),
            };
            let rolled_back = keep && step(limit, tx.rollback()).await.is_ok();
            return (Err(error), if rolled_back { Session::Untouched } else { Session::Broken });
        }
    };
    point("after_claim");

    if !work.ready() {
        let session = if step(limit, tx.rollback()).await.is_ok() { Session::Untouched } else { Session::Broken };
        return (Err(ProcessError::NotCommitted), session);
    }

    let ended = run_body(work, &mut tx, order.timeout.or(options.body_timeout), cancel).await;
    point("after_body");

    // The body's future is gone; from here on nothing else talks to this session, and no cancel request is under way later.
    if ended.was_cut()
        && let Err(error) = timeout(limit, DB::cut(inbox.pool(), &watch, &mark)).await.unwrap_or_else(|late| Err(late.into()))
    {
        tracing::warn!(consumer = order.name, id = %order.id, %error, "the body's statement could not be cancelled on the server");
    }
    // What sqlx makes of a nested `begin()` that was cancelled: a ROLLBACK of everything. While it is still to be sent, nothing ran behind it.
    let (given_up, failed) = (depth::<DB>(&tx) == 0 && tx.should_flush(), ended.failed());
    let guarded =
        timeout(limit, async { if given_up { DB::fate(&mut tx, &mark).await } else { DB::guard(&mut tx, sql, &mark, failed).await } });
    let guarded = guarded.await.unwrap_or_else(|late| Guarded::Lost(sqlx::Error::Io(late.into())));
    point("after_guard");

    // Counted only now: a nested transaction that was dropped has gone with what was sent since.
    let depth = depth::<DB>(&tx);
    let value = match (ended, guarded) {
        (_, Guarded::Escaped) => return (Err(ProcessError::TransactionEscaped), Session::Broken),
        _ if depth == 0 && !given_up => return (Err(ProcessError::TransactionEscaped), Session::Broken),
        (BodyEnd::Returned(Ok(value)), Guarded::Sound) if depth == 1 => value,
        (BodyEnd::Returned(Ok(_)), Guarded::Sound) => {
            return abandon(limit, tx, depth, true, ProcessError::NestedTransactionLeft).await;
        }
        (BodyEnd::Returned(Ok(_)), Guarded::Aborted) => {
            return abandon(limit, tx, depth, false, ProcessError::SwallowedSqlError).await;
        }
        (BodyEnd::Returned(_), Guarded::Lost(e)) => return (Err(ProcessError::Database(e)), Session::Broken),
        (BodyEnd::Returned(Err(e)), _) => {
            let broken = W::sql_error(&e).is_some_and(|e| DB::read(e) == SqlFault::BadSession);
            return abandon(limit, tx, depth, broken, ProcessError::Handler(e)).await;
        }
        (BodyEnd::Panicked(panic), _) => return abandon(limit, tx, depth, true, ProcessError::Panicked(panic)).await,
        (BodyEnd::TimedOut(after), _) => return abandon(limit, tx, depth, true, ProcessError::TimedOut(after)).await,
        (BodyEnd::Cancelled, _) => return abandon(limit, tx, depth, true, ProcessError::Cancelled).await,
    };

    let reply = caught(|| W::reply(&value));
    match reply {
        Ok(Ok(None)) => {}
        Ok(Ok(Some(reply))) => match step(limit, DB::record_reply(&mut tx, sql, &claim, &reply)).await {
            Ok(1) => {}
            Ok(_) => return (Err(ProcessError::TransactionEscaped), Session::Broken),
            Err(e) => return abandon(limit, tx, depth, false, ProcessError::CommitRefused(e)).await,
        },
        Ok(Err(e)) => return abandon(limit, tx, depth, false, ProcessError::Reply(e)).await,
        Err(panic) => return abandon(limit, tx, depth, true, ProcessError::Panicked(panic)).await,
    }
    commit::<DB, W>(limit, tx, value).await
}

fn depth<DB: InboxDatabase>(conn: &DB::Connection) -> usize {
    DB::TransactionManager::get_transaction_depth(conn)
}

/// COMMIT. Only an answer that proves a refusal means "not committed".
async fn commit<DB: InboxDatabase, W: Work<DB>>(limit: Duration, tx: Transaction<'_, DB>, value: W::Value) -> Ended<W::Value, W::Error> {
    let answer = step(limit, async {
        let mut commit = std::pin::pin!(tx.commit());
        let early = std::future::poll_fn(|cx| std::task::Poll::Ready(commit.as_mut().poll(cx))).await;
        point("commit_sent");
        match early {
            std::task::Poll::Ready(done) => done,
            std::task::Poll::Pending => commit.await,
        }
    })
    .await;
    match answer {
        Ok(()) => {
            point("commit_answered");
            (Ok(Processed { outcome: Outcome::Applied(value), mismatch: false }), Session::Used)
        }
        Err(e) if DB::refused(&e) => {
            let conflict = DB::read(&e) == SqlFault::Conflict;
            (Err(if conflict { ProcessError::Conflict(e) } else { ProcessError::CommitRefused(e) }), Session::Used)
        }
        Err(e) => (Err(ProcessError::Unknown(e)), Session::Broken),
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
fn caught<T>(work: impl FnOnce() -> T) -> Result<T, PanicPayload> {
    catch_unwind(AssertUnwindSafe(work)).map_err(PanicPayload::new)
}

/// A row was there. It is a receipt only once it is durable, whoever wrote it.
async fn duplicate<DB: InboxDatabase, W: Work<DB>>(
    limit: Duration,
    mut tx: Transaction<'_, DB>,
    sql: &DB::Sql,
    order: &Order,
    recorded: Recorded,
) -> Ended<W::Value, W::Error> {
    let ended = if recorded.durable {
        step(limit, tx.rollback()).await
    } else {
        step(limit, async {
            DB::barrier(&mut tx, sql).await?;
            tx.commit().await
        })
        .await
    };
    if let Err(e) = ended {
        return (Err(ProcessError::Database(e)), Session::Broken);
    }
    let mismatch = order.fingerprint.zip(recorded.fingerprint).is_some_and(|(ours, theirs)| ours != theirs);
    let value = match caught(|| W::recorded(recorded.reply.as_deref())) {
        Ok(read) => read.map_err(ProcessError::Reply),
        Err(panic) => Err(ProcessError::Panicked(panic)),
    };
    (value.map(|value| Processed { outcome: Outcome::Duplicate(value), mismatch }), Session::Untouched)
}

/// Rolls back and waits for it. What sqlx's own count no longer describes is ended by text, and its connection closed.
async fn abandon<DB: InboxDatabase, V, E>(
    limit: Duration,
    mut tx: Transaction<'_, DB>,
    depth: usize,
    close: bool,
    error: ProcessError<E>,
) -> Ended<V, E> {
    let rolled_back = if depth == 1 { step(limit, tx.rollback()).await } else { step(limit, DB::force_rollback(&mut tx)).await };
    let keep = rolled_back.is_ok() && depth == 1 && !close;
    (Err(error), if keep { Session::Used } else { Session::Broken })
}

/// Back to the pool, or closed; never returned in a state that somebody else could trip over.
pub(super) async fn put_back<DB: InboxDatabase>(inbox: &Inbox<DB>, mut conn: PoolConnection<DB>, session: Session) {
    let limit = inbox.shared.options.step_timeout;
    let clean = match session {
        Session::Untouched => true,
        Session::Used => step(limit, DB::reset(&mut conn, &inbox.shared.sql)).await.is_ok(),
        Session::Broken => false,
    };
    if clean {
        // The pool's own hook runs here; cut short, it takes the connection with it.
        if timeout(limit, conn.return_to_pool()).await.is_err() {
            tracing::warn!("a connection did not go back to its pool within {limit:?}; it is dropped");
        }
    } else if let Err(error) = step(Duration::from_secs(5), conn.close()).await {
        tracing::debug!(%error, "a connection did not close in an orderly way");
    }
}
