//! A body that is cut short while a statement runs: the statement ends, the writer's place is free, and nothing is applied.

use std::{sync::Arc, time::Duration};

use inbox_runtime::{FailureKind, Inbox, Outcome, ProcessError, State};
use inbox_tests::database::sqlite;
use sqlx::SqlitePool;
use tokio::sync::Notify;

use super::support::*;

/// Statements that never end by themselves: one that reads, and one that writes, whose interruption rolls SQLite's transaction back.
const READS: &str = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n";
const WRITES: &str = "INSERT INTO applied SELECT 'billing', x FROM \
                      (WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n WHERE x % 100000 = 0)";

fn endless(statement: &'static str, begun: Arc<Notify>) -> State<Script> {
    script(move |tx, id| {
        let begun = Arc::clone(&begun);
        Box::pin(async move {
            note(tx, "billing", id).await?;
            begun.notify_one();
            raw(tx, statement).await
        })
    })
}

/// Another process gets the writer's place, and the next attempt of the same message its own.
async fn is_free(pool: &SqlitePool, id: inbox_runtime::MessageId) {
    run(&beside(pool, Duration::from_secs(30)).await, "UPDATE accounts SET balance_cents = 1 WHERE id = 2").await;
    assert_untouched(pool, "billing", id).await;
    assert_eq!(number(pool, "SELECT count(*) FROM applied").await, 0);
    assert_eq!(bounded(billing(pool, id, id, noting())).await.unwrap(), Outcome::Applied(()));
    assert_once(pool, "billing", id).await;
}

#[tokio::test]
async fn a_timeout_interrupts_the_statement_and_frees_the_lock() {
    for statement in [READS, WRITES] {
        let ((pool, _dir), id) = (sqlite().await, new_id());
        let failed = bounded(billing(&impatient(&pool), id, id, endless(statement, Arc::default()))).await.unwrap_err();
        assert!(matches!(failed, ProcessError::TimedOut(_)), "{statement}: {failed:?}");
        assert_eq!(failed.kind(), FailureKind::Failed);
        bounded(is_free(&pool, id)).await;
    }
}

#[tokio::test]
async fn a_caller_that_goes_away_interrupts_the_statement_and_frees_the_lock() {
    for statement in [READS, WRITES] {
        let ((pool, _dir), id, begun) = (sqlite().await, new_id(), Arc::new(Notify::new()));
        let task = tokio::spawn(call(Inbox::new(&pool), id, endless(statement, Arc::clone(&begun))));
        bounded(begun.notified()).await;
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        bounded(is_free(&pool, id)).await;
    }
}

/// What cut one body must not cut the next one's statements on the same connection.
#[tokio::test]
async fn the_next_body_on_the_pool_may_take_its_time() {
    let ((pool, _dir), cut, id) = (sqlite().await, new_id(), new_id());
    let failed = bounded(billing(&impatient(&pool), cut, cut, endless(READS, Arc::default()))).await.unwrap_err();
    assert!(matches!(failed, ProcessError::TimedOut(_)), "{failed:?}");
    let long = script(|tx, id| {
        Box::pin(async move {
            // Far more steps than the interval at which a cut is noticed.
            raw(tx, "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 100000) SELECT count(*) FROM n").await?;
            Ok(note(tx, "billing", id).await?)
        })
    });
    assert_eq!(billing(&pool, id, id, long).await.unwrap(), Outcome::Applied(()));
    assert_once(&pool, "billing", id).await;
}

/// A body that swallows the timeout of a statement of its own is none of ours: here it waits without a statement.
#[tokio::test]
async fn a_timeout_between_statements_rolls_back() {
    let ((pool, _dir), id) = (sqlite().await, new_id());
    let waiting = script(|tx, id| {
        Box::pin(async move {
            note(tx, "billing", id).await?;
            std::future::pending().await
        })
    });
    let failed = bounded(billing(&impatient(&pool), id, id, waiting)).await.unwrap_err();
    assert!(matches!(failed, ProcessError::TimedOut(_)), "{failed:?}");
    bounded(is_free(&pool, id)).await;
}
