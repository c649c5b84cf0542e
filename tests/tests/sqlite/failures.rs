//! A4: an attempt that failed is no duplicate of the next one, however it failed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use inbox_runtime::{FailureKind, Inbox, Outcome, ProcessError, State};
use inbox_tests::database::sqlite;
use sqlx::SqlitePool;
use tokio::sync::Notify;

use super::support::*;

#[derive(Clone, Copy, Debug)]
enum Fails {
    Returns,
    Panics,
    Waits,
}

/// Writes, then fails in this way the first time.
fn failing_once(how: Fails, begun: Arc<Notify>) -> (State<Script>, Arc<AtomicU32>) {
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let body = script(move |tx, id| {
        let (run, begun) = (counted.fetch_add(1, Ordering::SeqCst), Arc::clone(&begun));
        Box::pin(async move {
            note(tx, "billing", id).await?;
            begun.notify_one();
            match how {
                _ if run > 0 => Ok(()),
                Fails::Returns => Err("no stock".into()),
                Fails::Panics => panic!("a bug"),
                Fails::Waits => std::future::pending().await,
            }
        })
    });
    (body, runs)
}

async fn second_attempt_applies(pool: &SqlitePool, id: inbox_runtime::MessageId, body: State<Script>, runs: &AtomicU32) {
    assert_untouched(pool, "billing", id).await;
    assert_eq!(billing(pool, id, id, body.clone()).await.unwrap(), Outcome::Applied(()));
    assert_eq!(billing(pool, id, id, body).await.unwrap(), Outcome::Duplicate(()));
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    assert_once(pool, "billing", id).await;
}

#[tokio::test]
async fn a4_after_an_error_the_next_attempt_runs() {
    let ((pool, _dir), id) = (sqlite().await, new_id());
    let (body, runs) = failing_once(Fails::Returns, Arc::default());
    let failed = billing(&pool, id, id, body.clone()).await.unwrap_err();
    assert!(matches!(&failed, ProcessError::Handler(e) if e.to_string() == "no stock"), "{failed:?}");
    assert_eq!(failed.kind(), FailureKind::Failed);
    second_attempt_applies(&pool, id, body, &runs).await;
}

#[tokio::test]
async fn a4_after_a_panic_the_next_attempt_runs() {
    let ((pool, _dir), id) = (sqlite().await, new_id());
    let (body, runs) = failing_once(Fails::Panics, Arc::default());
    let failed = billing(&pool, id, id, body.clone()).await.unwrap_err();
    assert!(matches!(&failed, ProcessError::Panicked(panic) if panic.text() == "a bug"), "{failed:?}");
    assert_eq!(failed.kind(), FailureKind::Failed);
    second_attempt_applies(&pool, id, body, &runs).await;
}

#[tokio::test]
async fn a4_after_a_timeout_the_next_attempt_runs() {
    let ((pool, _dir), id) = (sqlite().await, new_id());
    let (body, runs) = failing_once(Fails::Waits, Arc::default());
    let failed = bounded(billing(&impatient(&pool), id, id, body.clone())).await.unwrap_err();
    assert!(matches!(failed, ProcessError::TimedOut(after) if after == Duration::from_millis(100)), "{failed:?}");
    assert_eq!(failed.kind(), FailureKind::Failed);
    second_attempt_applies(&pool, id, body, &runs).await;
}

#[tokio::test]
async fn a4_after_an_aborted_task_the_next_attempt_runs() {
    let ((pool, _dir), id) = (sqlite().await, new_id());
    let begun = Arc::new(Notify::new());
    let (body, runs) = failing_once(Fails::Waits, Arc::clone(&begun));
    let task = tokio::spawn(call(Inbox::new(&pool), id, body.clone()));
    bounded(begun.notified()).await;
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    // The next call waits for its turn behind the rollback.
    second_attempt_applies(&pool, id, body, &runs).await;
}
