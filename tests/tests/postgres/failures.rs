//! A body that fails, in every way there is: nothing stays, and the next attempt runs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use inbox_runtime::{FailureKind, Inbox, MessageId, Outcome, ProcessError, State};
use inbox_tests::database::{postgres, postgres_with};
use sqlx::{Connection, PgConnection, PgPool};
use tokio::sync::Notify;

use super::support::*;

/// How the first attempt ends; the second is fine.
#[derive(Debug, Clone, Copy, PartialEq)]
enum First {
    Err,
    Panic,
    Hang,
}

fn failing_once(first: First, running: &Arc<Notify>) -> State<Script> {
    let (attempts, running) = (Arc::new(AtomicU32::new(0)), Arc::clone(running));
    script(move |tx, id| {
        let (attempt, running) = (attempts.fetch_add(1, Ordering::SeqCst), Arc::clone(&running));
        Box::pin(async move {
            note(tx, "billing", id).await?;
            match first {
                _ if attempt > 0 => Ok(()),
                First::Err => Err("no stock".into()),
                First::Panic => panic!("a bug"),
                First::Hang => {
                    running.notify_one();
                    std::future::pending().await
                }
            }
        })
    })
}

async fn second_attempt_runs(pool: &PgPool, id: MessageId, body: State<Script>) {
    assert_untouched(pool, "billing", id).await;
    assert_eq!(billing(pool, id, id, body.clone()).await.unwrap(), Outcome::Applied(()));
    assert_eq!(billing(pool, id, id, body).await.unwrap(), Outcome::Duplicate(()));
    assert_once(pool, "billing", id).await;
}

#[tokio::test]
async fn a4_a_message_whose_body_returned_an_error_is_no_duplicate() {
    let (pool, id) = (postgres_with(1).await, new_id());
    let body = failing_once(First::Err, &Arc::default());
    let failed = billing(&pool, id, id, body.clone()).await.unwrap_err();
    assert!(matches!(&failed, ProcessError::Handler(e) if e.to_string() == "no stock"), "{failed:?}");
    assert_eq!(failed.kind(), FailureKind::Failed);
    second_attempt_runs(&pool, id, body).await;
}

#[tokio::test]
async fn a4_a_message_whose_body_panicked_is_no_duplicate() {
    let (pool, id) = (postgres_with(1).await, new_id());
    let body = failing_once(First::Panic, &Arc::default());
    let failed = billing(&pool, id, id, body.clone()).await.unwrap_err();
    assert!(matches!(&failed, ProcessError::Panicked(panic) if panic.text() == "a bug"), "{failed:?}");
    second_attempt_runs(&pool, id, body).await;
}

#[tokio::test]
async fn a4_a_message_whose_body_timed_out_is_no_duplicate() {
    let (pool, id) = (postgres_with(1).await, new_id());
    let inbox = Inbox::builder(pool.clone()).body_timeout(Duration::from_millis(100)).build().unwrap();
    let body = failing_once(First::Hang, &Arc::default());
    let failed = billing(&inbox, id, id, body.clone()).await.unwrap_err();
    assert!(matches!(failed, ProcessError::TimedOut(after) if after == Duration::from_millis(100)), "{failed:?}");
    second_attempt_runs(&pool, id, body).await;
}

#[tokio::test]
async fn a4_a_message_whose_task_was_aborted_is_no_duplicate() {
    let (pool, id, running) = (postgres_with(2).await, new_id(), Arc::new(Notify::new()));
    let body = failing_once(First::Hang, &running);
    let call = tokio::spawn({
        let (pool, body) = (pool.clone(), body.clone());
        async move { billing(&pool, id, id, body).await }
    });
    running.notified().await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    // No wait of ours: the second attempt gets its turn when the first is rolled back.
    assert_eq!(billing(&pool, id, id, body).await.unwrap(), Outcome::Applied(()));
    assert_once(&pool, "billing", id).await;
}

#[tokio::test]
async fn b1_a_swallowed_sql_error_is_a_failed_attempt() {
    let (pool, id) = (postgres_with(1).await, new_id());
    let swallowing = script(|tx, id| {
        Box::pin(async move {
            note(tx, "billing", id).await?;
            // The mistake: the transaction is aborted now, and COMMIT would answer ROLLBACK.
            let _ = raw(tx, "INSERT INTO accounts (id) VALUES (1)").await;
            Ok(())
        })
    });
    let failed = billing(&pool, id, id, swallowing).await.unwrap_err();
    assert!(matches!(failed, ProcessError::SwallowedSqlError), "{failed:?}");
    assert!(failed.to_string().contains("nested transaction"), "it says what to do: {failed}");
    assert_eq!(failed.kind(), FailureKind::Failed);
    second_attempt_runs(&pool, id, noting()).await;
}

#[tokio::test]
async fn b7_a_deferred_constraint_that_fails_at_commit_is_a_failed_attempt() {
    let (pool, id) = (postgres_with(1).await, new_id());
    run(&pool, "CREATE TABLE invoice (account bigint REFERENCES accounts DEFERRABLE INITIALLY DEFERRED)").await;
    let violating = script(|tx, id| {
        Box::pin(async move {
            note(tx, "billing", id).await?;
            raw(tx, "INSERT INTO invoice VALUES (99)").await
        })
    });
    let failed = billing(&pool, id, id, violating).await.unwrap_err();
    assert!(matches!(failed, ProcessError::CommitRefused(_)), "{failed:?}");
    assert_eq!(failed.kind(), FailureKind::Failed);
    assert!(yes(&pool, "SELECT count(*) = 0 FROM invoice").await);
    second_attempt_runs(&pool, id, noting()).await;
}

#[tokio::test]
async fn b14_the_claim_is_free_as_soon_as_the_failure_is_told() {
    let (pool, id) = (postgres_with(1).await, new_id());
    let mut other = PgConnection::connect_with(&pool.connect_options()).await.unwrap();
    for _ in 0..20 {
        let failing = script(|tx, id| {
            Box::pin(async move {
                note(tx, "billing", id).await?;
                Err("no stock".into())
            })
        });
        assert!(matches!(billing(&pool, id, id, failing).await, Err(ProcessError::Handler(_))));
        let mut tx = other.begin().await.unwrap();
        run(&mut *tx, "SET LOCAL lock_timeout = '500ms'").await;
        let claim = sqlx::query("INSERT INTO public.inbox (consumer_name, message_id) VALUES ('billing', $1)").bind(id.as_uuid());
        claim.execute(&mut *tx).await.expect("nobody holds the claim");
        tx.rollback().await.unwrap();
    }
    assert_untouched(&pool, "billing", id).await;
}

#[test]
fn b14_the_claim_is_free_soon_after_the_runtime_went_away() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (going, id) = (runtime(), new_id());
    let options = going.block_on(async {
        let pool = postgres().await;
        let (body, running) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let hanging = failing_once(First::Hang, &running);
        tokio::spawn({
            let pool = pool.clone();
            async move { drop((billing(&pool, id, id, hanging).await, body)) }
        });
        running.notified().await;
        pool.connect_options()
    });
    going.shutdown_timeout(Duration::from_secs(10));
    runtime().block_on(async {
        let pool = inbox_runtime::postgres::pool_options().connect_with((*options).clone()).await.unwrap();
        assert_eq!(billing(&pool, id, id, noting()).await.unwrap(), Outcome::Applied(()));
        assert_once(&pool, "billing", id).await;
    });
}

#[tokio::test]
async fn a_connection_killed_under_the_body_is_infrastructure_not_a_failure() {
    let (pool, id) = (postgres_with(2).await, new_id());
    let killed = {
        let pool = pool.clone();
        script(move |tx, id| {
            let pool = pool.clone();
            Box::pin(async move {
                note(tx, "billing", id).await?;
                let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut **tx).await?;
                sqlx::query("SELECT pg_terminate_backend($1)").bind(pid).execute(&pool).await?;
                until(&pool, &format!("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = {pid})")).await;
                // One that notices and one that does not.
                if id.as_uuid().as_bytes()[15] % 2 == 0 { raw(tx, "SELECT 1").await } else { Ok(()) }
            })
        })
    };
    let with_last_byte = |byte: u8| {
        let mut bytes = *id.as_uuid().as_bytes();
        bytes[15] = byte;
        MessageId::try_from(inbox_runtime::Uuid::from_bytes(bytes)).unwrap()
    };
    for id in [with_last_byte(2), with_last_byte(3)] {
        let failed = billing(&pool, id, id, killed.clone()).await.unwrap_err();
        assert!(matches!(failed, ProcessError::Database(_)), "{failed:?}");
        assert_eq!(failed.kind(), FailureKind::Transient);
        second_attempt_runs(&pool, id, noting()).await;
    }
}
