//! A full disk: a clear error, nothing half applied, and the message is applied once there is room.

use inbox_runtime::{FailureKind, Outcome, ProcessError, State, broker::Memory};
use inbox_tests::database::sqlite;
use sqlx::{SqlitePool, sqlite::SqliteConnectOptions};

use super::support::*;

/// More than fits. One row, whose failure makes SQLite roll the transaction back, or many, of which it takes back the statement.
const BLOB: &str = "INSERT INTO applied VALUES ('ballast', hex(zeroblob(400000)))";
const ROWS: &str = "INSERT INTO applied SELECT 'ballast', hex(zeroblob(2000)) FROM \
                    (WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 400) SELECT x FROM n)";

/// A pool on a file that cannot grow.
async fn full(pool: &SqlitePool) -> SqlitePool {
    run(pool, "CREATE TABLE ballast (x); INSERT INTO ballast VALUES (zeroblob(2000000))").await;
    let pages = number(pool, "PRAGMA page_count").await;
    let options: SqliteConnectOptions = pool.connect_options().as_ref().clone();
    let options = options.pragma("max_page_count", (pages + 2).to_string());
    inbox_runtime::sqlite::pool_options().connect_with(options).await.expect("a pool")
}

async fn make_room(pool: &SqlitePool) {
    run(pool, "DELETE FROM ballast").await;
}

fn writing(statement: &'static str) -> State<Script> {
    script(move |tx, id| {
        Box::pin(async move {
            note(tx, "billing", id).await?;
            raw(tx, statement).await
        })
    })
}

#[tokio::test]
async fn a_full_disk_is_a_failure_of_this_attempt_and_the_next_one_applies() {
    for statement in [BLOB, ROWS] {
        let ((file, _dir), id) = (sqlite().await, new_id());
        let pool = full(&file).await;
        let failed = billing(&pool, id, id, writing(statement)).await.unwrap_err();
        assert!(matches!(&failed, ProcessError::Handler(e) if e.to_string().contains("full")), "{statement}: {failed:?}");
        assert_ne!(failed.kind(), FailureKind::Halting);
        assert_untouched(&pool, "billing", id).await;
        make_room(&pool).await;
        assert_eq!(billing(&pool, id, id, writing(statement)).await.unwrap(), Outcome::Applied(()));
        assert_once(&pool, "billing", id).await;
        assert_eq!(number(&pool, "SELECT count(*) FROM pragma_quick_check WHERE quick_check = 'ok'").await, 1);
    }
}

#[tokio::test]
async fn a_full_disk_stops_no_runner() {
    let ((file, _dir), id, broker) = (sqlite().await, new_id(), Memory::new());
    let pool = full(&file).await;
    let dispatcher = dispatcher(&pool, writing(BLOB), &["billing"]).await;
    broker.publish(order(id));
    let running = serve(dispatcher, &broker);
    bounded(async {
        while broker.counts().retried < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    })
    .await;
    make_room(&pool).await;
    running.drain(&broker).await;
    running.stop().await.unwrap();
    assert_eq!((broker.counts().done, broker.counts().dead_lettered), (1, 0));
    assert_once(&pool, "billing", id).await;
}

/// SQLite has rolled back by itself, and a body that goes on as if nothing had happened writes outside of any transaction.
#[tokio::test]
async fn a_full_disk_that_the_body_swallows_is_caught() {
    let ((file, _dir), id) = (sqlite().await, new_id());
    let pool = full(&file).await;
    let swallowing = |goes_on: bool| {
        script(move |tx, id| {
            Box::pin(async move {
                note(tx, "billing", id).await?;
                assert!(raw(tx, BLOB).await.is_err());
                if goes_on {
                    raw(tx, "UPDATE accounts SET balance_cents = 1").await?;
                }
                Ok(())
            })
        })
    };
    for goes_on in [false, true] {
        let failed = billing(&pool, id, id, swallowing(goes_on)).await.unwrap_err();
        assert!(matches!(failed, ProcessError::TransactionEscaped), "{failed:?}");
        assert_untouched(&pool, "billing", id).await;
    }
    make_room(&pool).await;
    assert_eq!(billing(&pool, id, id, noting()).await.unwrap(), Outcome::Applied(()));
    assert_once(&pool, "billing", id).await;
}

/// The statement that finds the disk full may take only itself back: then it is a failed statement like any other.
#[tokio::test]
async fn a_full_disk_that_costs_a_statement_only_leaves_the_rest_in_place() {
    let ((file, _dir), id) = (sqlite().await, new_id());
    let pool = full(&file).await;
    let swallowing = script(|tx, id| {
        Box::pin(async move {
            note(tx, "billing", id).await?;
            assert!(raw(tx, ROWS).await.is_err());
            Ok(())
        })
    });
    assert_eq!(billing(&pool, id, id, swallowing).await.unwrap(), Outcome::Applied(()));
    assert_once(&pool, "billing", id).await;
    assert_eq!(number(&pool, "SELECT count(*) FROM applied").await, 1);
}

#[tokio::test]
async fn a_full_disk_is_no_escape_whatever_the_body_asks_before_it_returns_the_error() {
    let ((file, _dir), id) = (sqlite().await, new_id());
    let pool = full(&file).await;
    let body = script(|tx, id| {
        Box::pin(async move {
            note(tx, "billing", id).await?;
            let failed = raw(tx, BLOB).await;
            number(&mut **tx, "SELECT count(*) FROM applied").await;
            failed
        })
    });
    let failed = billing(&pool, id, id, body).await.unwrap_err();
    assert!(matches!(failed, ProcessError::Handler(_)), "{failed:?}");
    assert_untouched(&pool, "billing", id).await;
}

/// A constraint of the schema may roll the whole transaction back. A body that returns that error has done nothing wrong.
#[tokio::test]
async fn a_trigger_that_rolls_back_is_a_failure_of_the_body_that_returns_it() {
    let ((pool, _dir), id) = (sqlite().await, new_id());
    let stock = "CREATE TRIGGER stock BEFORE UPDATE ON accounts WHEN NEW.balance_cents < 0 BEGIN SELECT RAISE(ROLLBACK, 'no stock'); END";
    run(&pool, stock).await;
    let body = script(|tx, id| {
        Box::pin(async move {
            note(tx, "billing", id).await?;
            raw(tx, "UPDATE accounts SET balance_cents = -1 WHERE id = 1").await
        })
    });
    let failed = billing(&pool, id, id, body).await.unwrap_err();
    assert!(matches!(failed, ProcessError::Handler(_)), "{failed:?}");
    assert_untouched(&pool, "billing", id).await;
    assert!(billing(&pool, id, id, noting()).await.unwrap().is_applied());
}
