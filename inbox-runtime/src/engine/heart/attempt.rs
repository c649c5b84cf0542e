//! One attempt on one connection: the order of the heart, and nothing else.

use std::{future::Future, time::Duration};

use sqlx::{Connection, Transaction, pool::PoolConnection};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    body::{Guard, One, Verdict, body, step},
    inbox::Inbox,
    left_out::is_durable,
    probe::point,
    process::{Order, Processed, Work},
};
use crate::{
    engine::contract::database::{Claimed, InboxDatabase, Recorded, SqlFault},
    vocabulary::error::ProcessError,
};

/// What is to become of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// No body ran on it: back to the pool.
    Untouched,
    /// A body ran on it: reset it first.
    Used,
    /// Its state is not known, or was cut: close it.
    Broken,
}

type Ended<V, E> = (Result<Processed<V>, ProcessError<E>>, Keep);

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
        Err(e) => return (Err(ProcessError::Database(e)), Keep::Broken),
    };
    let mut tx = match step(limit, conn.begin_with(DB::begin(order.isolation))).await {
        Ok(tx) => tx,
        // A writer that is busy left nothing open.
        Err(e) if DB::read(&e) == SqlFault::Busy => return (Err(ProcessError::Database(e)), Keep::Untouched),
        Err(e) => return (Err(ProcessError::Database(e)), Keep::Broken),
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
                SqlFault::BadSession | SqlFault::Aborted | SqlFault::Other => (ProcessError::Database(e), false),
            };
            let rolled_back = keep && step(limit, tx.rollback()).await.is_ok();
            return (Err(error), if rolled_back { Keep::Untouched } else { Keep::Broken });
        }
    };
    point("after_claim");

    if !work.ready() {
        let session = if step(limit, tx.rollback()).await.is_ok() { Keep::Untouched } else { Keep::Broken };
        return (Err(ProcessError::NotCommitted), session);
    }

    let value = match body(inbox, &mut tx, &mut One { order, work }, cancel, &watch, &mark, Guard::First).await {
        Verdict::Sound(value) => value,
        Verdict::Undo { error, depth, close } => return abandon(limit, tx, depth, close, error).await,
        Verdict::Gone(error) => return (Err(error), Keep::Broken),
    };
    commit::<DB, W>(limit, tx, value).await
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
            (Ok(Processed::applied(value)), Keep::Used)
        }
        Err(e) if DB::refused(&e) => {
            let conflict = DB::read(&e) == SqlFault::Conflict;
            (Err(if conflict { ProcessError::Conflict(e) } else { ProcessError::CommitRefused(e) }), Keep::Used)
        }
        Err(e) => (Err(ProcessError::Unknown(e)), Keep::Broken),
    }
}

/// A row was there. It is a receipt only once it is durable, whoever wrote it.
async fn duplicate<DB: InboxDatabase, W: Work<DB>>(
    limit: Duration,
    mut tx: Transaction<'_, DB>,
    sql: &DB::Sql,
    order: &Order,
    recorded: Recorded,
) -> Ended<W::Value, W::Error> {
    let ended = if is_durable(&recorded) {
        step(limit, tx.rollback()).await
    } else {
        step(limit, async {
            DB::barrier(&mut tx, sql).await?;
            tx.commit().await
        })
        .await
    };
    if let Err(e) = ended {
        return (Err(ProcessError::Database(e)), Keep::Broken);
    }
    (Processed::recorded::<DB, W>(order, &recorded), Keep::Untouched)
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
    (Err(error), if keep { Keep::Used } else { Keep::Broken })
}

/// Back to the pool, or closed; never returned in a state that somebody else could trip over.
pub(super) async fn put_back<DB: InboxDatabase>(inbox: &Inbox<DB>, mut conn: PoolConnection<DB>, session: Keep) {
    let limit = inbox.shared.options.step_timeout;
    let clean = match session {
        Keep::Untouched => true,
        Keep::Used => step(limit, DB::reset(&mut conn, &inbox.shared.sql)).await.is_ok(),
        Keep::Broken => false,
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
