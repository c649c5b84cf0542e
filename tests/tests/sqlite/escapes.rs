//! B4: a body that ends the transaction by text is caught on every exit, and its message is never acked.

use std::time::Duration;

use inbox_runtime::{FailureKind, ProcessError, State, broker::Memory};
use inbox_tests::database::sqlite;
use sqlx::SqlitePool;

use super::support::*;

const SPELLINGS: [&str; 11] = [
    "COMMIT",
    // A guard of its own in place of ours.
    "COMMIT; BEGIN IMMEDIATE; SAVEPOINT inbox_guard",
    "end transaction",
    "  /* done */ commit ;",
    "COMMIT; BEGIN IMMEDIATE",
    "COMMIT; BEGIN",
    "ROLLBACK",
    "ROLLBACK; BEGIN IMMEDIATE",
    "ROLLBACK; BEGIN; SAVEPOINT another",
    "RELEASE inbox_guard",
    "RELEASE inbox_guard; COMMIT",
];

/// How the body ends after it has ended the transaction.
#[derive(Debug, Clone, Copy)]
enum Exit {
    Ok,
    Err,
    Panic,
    Timeout,
    /// While a statement runs.
    BusyTimeout,
    FailedStatement,
    SwallowedStatement,
}

/// Never ends by itself.
const ENDLESS: &str = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n";

fn escaping(spelling: &'static str, exit: Exit) -> State<Script> {
    script(move |tx, id| {
        Box::pin(async move {
            note(tx, "billing", id).await?;
            raw(tx, spelling).await?;
            // A write after it, autocommitted or in a transaction of its own.
            raw(tx, "UPDATE accounts SET balance_cents = balance_cents + 1").await?;
            match exit {
                Exit::Ok => Ok(()),
                Exit::Err => Err("no stock".into()),
                Exit::Panic => panic!("a bug"),
                Exit::Timeout => std::future::pending().await,
                Exit::BusyTimeout => raw(tx, ENDLESS).await,
                Exit::FailedStatement => raw(tx, "INSERT INTO accounts (id) VALUES (1)").await,
                Exit::SwallowedStatement => {
                    assert!(raw(tx, "INSERT INTO accounts (id) VALUES (1)").await.is_err());
                    Ok(())
                }
            }
        })
    })
}

async fn is_caught(pool: &SqlitePool, spelling: &'static str, exit: Exit) {
    let (id, what) = (new_id(), format!("{spelling:?} with {exit:?}"));
    let failed = bounded(billing(&impatient(pool), id, id, escaping(spelling, exit))).await.expect_err(&what);
    if spelling.starts_with("ROLLBACK; BEGIN") && matches!(exit, Exit::BusyTimeout) {
        // Both transactions were rolled back, and no write came between them: there is nothing to catch.
        assert_untouched(pool, "billing", id).await;
        return assert_eq!(number(pool, "SELECT max(balance_cents) FROM accounts").await, 0, "{what}");
    }
    assert!(matches!(failed, ProcessError::TransactionEscaped), "{what}: {failed:?}");
    assert_eq!(failed.kind(), FailureKind::Halting, "{what}");
    // Whoever gets the connection next is in no transaction, and its write is seen from elsewhere.
    run(pool, "CREATE TABLE mark (x)").await;
    let elsewhere = beside(pool, Duration::from_secs(5)).await;
    assert_eq!(number(&elsewhere, "SELECT count(*) FROM sqlite_master WHERE name = 'mark'").await, 1, "{what}");
    run(pool, "DROP TABLE mark; UPDATE accounts SET balance_cents = 0").await;
}

macro_rules! on_exit {
    ($($test:ident: $exit:expr;)*) => {$(
        #[tokio::test]
        async fn $test() {
            let (pool, _dir) = sqlite().await;
            for spelling in SPELLINGS {
                is_caught(&pool, spelling, $exit).await;
            }
        }
    )*};
}

on_exit! {
    b4_an_escape_is_caught_when_the_body_returns_ok: Exit::Ok;
    b4_an_escape_is_caught_when_the_body_returns_an_error: Exit::Err;
    b4_an_escape_is_caught_when_the_body_panics: Exit::Panic;
    b4_an_escape_is_caught_when_the_body_times_out: Exit::Timeout;
    b4_an_escape_is_caught_when_a_statement_still_runs: Exit::BusyTimeout;
    b4_an_escape_is_caught_when_a_later_statement_failed: Exit::FailedStatement;
    b4_an_escape_is_caught_when_a_later_failure_was_swallowed: Exit::SwallowedStatement;
}

/// `OR ROLLBACK` is another spelling of it: the statement that fails ends the transaction, and what follows is autocommitted.
#[tokio::test]
async fn b4_or_rollback_is_an_escape_too() {
    let ((pool, _dir), id) = (sqlite().await, new_id());
    let body = script(|tx, id| {
        Box::pin(async move {
            note(tx, "billing", id).await?;
            let failed = raw(tx, "INSERT OR ROLLBACK INTO accounts (id) VALUES (1)").await;
            assert!(failed.is_err());
            Ok(())
        })
    });
    let failed = billing(&pool, id, id, body).await.unwrap_err();
    assert!(matches!(failed, ProcessError::TransactionEscaped), "{failed:?}");
    assert_untouched(&pool, "billing", id).await;
}

#[tokio::test]
async fn b4_an_escaped_message_is_a_dead_letter_is_not_acked_and_stops_the_runner() {
    for (spelling, exit) in [("COMMIT", Exit::Err), ("ROLLBACK", Exit::Ok), ("COMMIT; BEGIN IMMEDIATE", Exit::Panic)] {
        let ((pool, _dir), id, broker) = (sqlite().await, new_id(), Memory::new());
        broker.publish(order(id));
        let dispatcher = dispatcher(&pool, escaping(spelling, exit), &["billing", "shipping"]).await;
        let ended = serve(dispatcher, &broker).end().await.expect_err("it stops by itself");
        assert!(ended.to_string().contains("consumer `billing`: the handler ended the inbox transaction itself"), "{ended}");
        let counts = broker.counts();
        assert_eq!((counts.done, counts.dead_lettered, counts.ready + counts.held), (0, 0, 1), "{counts:?}");
        assert_eq!(letters(&pool).await, [("transaction_escaped".to_owned(), Some("billing".to_owned()), Some(id.as_uuid()))]);
        // The other consumer has nothing to do with it.
        assert_once(&pool, "shipping", id).await;
    }
}
