//! What a body may do with its transaction, and what its failures leave behind.

use futures_util::TryStreamExt;
use inbox_runtime::{FailureKind, Outcome, ProcessError, broker::Memory};
use inbox_tests::database::sqlite;
use sqlx::{Acquire, Connection, Executor, Row, Sqlite, SqlitePool};

use super::support::*;

/// Where PostgreSQL gives the transaction up, SQLite takes back the statement and goes on: what the body says holds.
#[tokio::test]
async fn a_failed_statement_that_the_body_handles_leaves_the_rest_in_place() {
    let ((pool, _dir), id) = (sqlite().await, new_id());
    let body = script(|tx, id| {
        Box::pin(async move {
            note(tx, "billing", id).await?;
            // Two rows, the second of which is taken: the first goes with it.
            let taken = raw(tx, "INSERT INTO accounts (id) VALUES (9), (1)").await;
            assert!(taken.unwrap_err().to_string().contains("UNIQUE"));
            assert!(raw(tx, "SELECT nothing FROM nowhere").await.is_err());
            raw(tx, "UPDATE accounts SET balance_cents = 5 WHERE id = 1").await
        })
    });
    assert_eq!(billing(&pool, id, id, body).await.unwrap(), Outcome::Applied(()));
    assert_once(&pool, "billing", id).await;
    assert_eq!(number(&pool, "SELECT balance_cents FROM accounts WHERE id = 1").await, 5);
    assert_eq!(number(&pool, "SELECT count(*) FROM accounts").await, 4, "no account 9");
}

#[tokio::test]
async fn a_forgotten_nested_transaction_is_a_failure_and_the_connection_is_not_given_on() {
    let ((pool, _dir), id) = (sqlite().await, new_id());
    let body = script(|tx, id| {
        Box::pin(async move {
            note(tx, "billing", id).await?;
            let nested = tx.begin().await?;
            let _forgotten = std::mem::ManuallyDrop::new(nested);
            Ok(())
        })
    });
    let failed = billing(&pool, id, id, body).await.unwrap_err();
    assert!(matches!(failed, ProcessError::NestedTransactionLeft), "{failed:?}");
    assert_eq!(failed.kind(), FailureKind::Failed);
    assert_untouched(&pool, "billing", id).await;
    assert_eq!(billing(&pool, id, id, noting()).await.unwrap(), Outcome::Applied(()));
    assert_once(&pool, "billing", id).await;
}

#[tokio::test]
async fn nested_transactions_are_savepoints() {
    let ((pool, _dir), id) = (sqlite().await, new_id());
    let body = script(|tx, id| {
        Box::pin(async move {
            let mut kept = tx.begin().await?;
            note(&mut kept, "billing", id).await?;
            let mut inner = kept.begin().await?;
            note(&mut inner, "inner", id).await?;
            inner.rollback().await?;
            kept.commit().await?;
            let mut dropped = tx.begin().await?;
            note(&mut dropped, "dropped", id).await?;
            drop(dropped);
            Ok(())
        })
    });
    assert_eq!(billing(&pool, id, id, body).await.unwrap(), Outcome::Applied(()));
    assert_once(&pool, "billing", id).await;
    assert_eq!(number(&pool, "SELECT count(*) FROM applied").await, 1);
}

async fn sum<'e>(on: impl Executor<'e, Database = Sqlite>) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("SELECT sum(balance_cents) FROM accounts").fetch_one(on).await
}

async fn in_a_transaction<'a>(on: impl Acquire<'a, Database = Sqlite>, sql: &'static str) -> Result<(), sqlx::Error> {
    let mut tx = on.begin().await?;
    sqlx::raw_sql(sql).execute(&mut *tx).await?;
    tx.commit().await
}

#[tokio::test]
async fn streams_and_generic_helpers_work_on_the_transaction() {
    let ((pool, _dir), id) = (sqlite().await, new_id());
    let body = script(|tx, id| {
        Box::pin(async move {
            in_a_transaction(&mut **tx, "UPDATE accounts SET balance_cents = id * 10").await?;
            assert_eq!(sum(&mut **tx).await?, 100);
            let mut seen = 0;
            {
                let mut rows = sqlx::query("SELECT balance_cents FROM accounts ORDER BY id").fetch(&mut **tx);
                // Left before its end: what remains is the driver's business.
                while let Some(row) = rows.try_next().await? {
                    seen += row.try_get::<i64, _>(0)?;
                    if seen >= 60 {
                        break;
                    }
                }
            }
            assert_eq!(seen, 60);
            Ok(note(tx, "billing", id).await?)
        })
    });
    assert_eq!(billing(&pool, id, id, body).await.unwrap(), Outcome::Applied(()));
    assert_once(&pool, "billing", id).await;
    assert_eq!(sum(&pool).await.unwrap(), 100);
}

async fn with_deferred_key(pool: &SqlitePool) {
    run(pool, "CREATE TABLE orders (account bigint REFERENCES accounts (id) DEFERRABLE INITIALLY DEFERRED)").await;
}

#[tokio::test]
async fn b7_a_deferred_key_that_fails_at_commit_is_refused_and_the_connection_is_usable() {
    let ((pool, _dir), id) = (sqlite().await, new_id());
    with_deferred_key(&pool).await;
    let dangling = script(|tx, id| {
        Box::pin(async move {
            note(tx, "billing", id).await?;
            raw(tx, "INSERT INTO orders VALUES (99)").await
        })
    });
    let failed = billing(&pool, id, id, dangling.clone()).await.unwrap_err();
    assert!(matches!(&failed, ProcessError::CommitRefused(e) if e.to_string().contains("FOREIGN KEY")), "{failed:?}");
    assert_eq!(failed.kind(), FailureKind::Failed);
    assert_untouched(&pool, "billing", id).await;
    // The pool has one connection: the next user is in no transaction, and the same message is applied once it fits.
    run(&pool, "INSERT INTO accounts (id) VALUES (99)").await;
    let elsewhere = beside(&pool, std::time::Duration::ZERO).await;
    assert_eq!(number(&elsewhere, "SELECT count(*) FROM accounts").await, 5);
    assert_eq!(billing(&pool, id, id, dangling).await.unwrap(), Outcome::Applied(()));
    assert_once(&pool, "billing", id).await;
}

#[tokio::test]
async fn a_reply_is_recorded_and_given_to_duplicates() {
    let ((pool, _dir), id, other) = (sqlite().await, new_id(), new_id());
    let nothing = || script(|_, _| Box::pin(async { Ok(()) }));
    let first = answering(&pool, id, id, nothing()).await.unwrap();
    assert_eq!(first, Outcome::Applied(format!("run 1 of {id}")));
    let _ = answering(&pool, other, other, nothing()).await.unwrap();
    assert_eq!(answering(&pool, id, id, nothing()).await.unwrap(), Outcome::Duplicate(format!("run 1 of {id}")));
    assert_eq!(answering(&pool, other, other, nothing()).await.unwrap(), Outcome::Duplicate(format!("run 2 of {other}")));
    let recorded: String =
        sqlx::query_scalar("SELECT reply FROM inbox WHERE message_id = ?1").bind(id.as_uuid()).fetch_one(&pool).await.unwrap();
    assert_eq!(recorded, format!("\"run 1 of {id}\""));
    // One that comes through a broker is a duplicate of the direct call.
    let broker = Memory::new();
    let mut message = order(id);
    "questions".clone_into(&mut message.topic);
    broker.publish(message);
    let running = serve(dispatcher(&pool, nothing(), &["answering"]).await, &broker);
    running.drain(&broker).await;
    running.stop().await.unwrap();
    assert_once(&pool, "answering", id).await;
}

#[tokio::test]
async fn a_reply_of_a_failed_attempt_is_not_recorded() {
    let ((pool, _dir), id) = (sqlite().await, new_id());
    let failing = script(|_, _| Box::pin(async { Err("no".into()) }));
    answering(&pool, id, id, failing).await.unwrap_err();
    assert_untouched(&pool, "answering", id).await;
    assert_eq!(number(&pool, "SELECT count(reply) FROM inbox").await, 0);
}

/// The connection that a body had is the next one's, without what the body left open.
#[tokio::test]
async fn a_connection_comes_back_outside_of_any_transaction() {
    let ((pool, _dir), id) = (sqlite().await, new_id());
    let failed = billing(&pool, id, id, script(|_, _| Box::pin(async { Err("no".into()) }))).await;
    assert!(failed.is_err());
    let mut conn = pool.acquire().await.unwrap();
    // `BEGIN` within a transaction is an error.
    run(&mut *conn, "BEGIN").await;
    run(&mut *conn, "ROLLBACK").await;
    conn.ping().await.unwrap();
}
