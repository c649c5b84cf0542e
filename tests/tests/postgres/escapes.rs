//! B4: a body that ends the transaction by text, in every spelling and on every exit, is caught and never acked.

use std::time::Duration;

use inbox_runtime::{FailureKind, Inbox, ProcessError, State, broker::Memory};
use inbox_tests::database::postgres_with;
use sqlx::PgPool;

use super::support::*;

const SPELLINGS: [&str; 13] = [
    "COMMIT",
    "commit",
    "END",
    "  commit work ;",
    "COMMIT AND CHAIN",
    "COMMIT; BEGIN",
    "COMMIT; BEGIN ISOLATION LEVEL SERIALIZABLE",
    "ROLLBACK",
    "ABORT",
    "ROLLBACK AND CHAIN",
    "ROLLBACK; BEGIN",
    "/* done */ COMMIT",
    "DO 'BEGIN EXECUTE ''SELECT 1''; END'; COMMIT",
];

/// How the body ends after it has ended the transaction.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Exit {
    Ok,
    Err,
    Panic,
    Timeout,
    /// With a statement that is running on the server.
    BusyTimeout,
    /// With a statement that failed: the new transaction, if there is one, is aborted.
    FailedStatement,
    SwallowedStatement,
}

const EXITS: [Exit; 7] =
    [Exit::Ok, Exit::Err, Exit::Panic, Exit::Timeout, Exit::BusyTimeout, Exit::FailedStatement, Exit::SwallowedStatement];

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
                Exit::BusyTimeout => raw(tx, "SELECT pg_sleep(600)").await,
                Exit::FailedStatement => raw(tx, "SELECT 1 / 0").await,
                Exit::SwallowedStatement => {
                    assert!(raw(tx, "SELECT 1 / 0").await.is_err());
                    Ok(())
                }
            }
        })
    })
}

async fn is_caught(pool: &PgPool, spelling: &'static str, exit: Exit) {
    let (id, what) = (new_id(), format!("{spelling:?} with {exit:?}"));
    let inbox = Inbox::builder(pool.clone()).body_timeout(Duration::from_millis(100)).build().unwrap();
    let failed = billing(&inbox, id, id, escaping(spelling, exit)).await.expect_err(&what);
    if matches!(spelling, "ROLLBACK AND CHAIN" | "ROLLBACK; BEGIN") && !matches!(exit, Exit::Ok | Exit::Err | Exit::Panic | Exit::Timeout) {
        // The second transaction is aborted as well, and looks like the first. Nothing is applied, so it is a failure like any other.
        assert_untouched(pool, "billing", id).await;
        return assert!(yes(pool, "SELECT max(balance_cents) = 0 FROM accounts").await, "{what}");
    }
    assert!(matches!(failed, ProcessError::TransactionEscaped), "{what}: {failed:?}");
    assert_eq!(failed.kind(), FailureKind::Halting, "{what}");
    // Whoever gets a connection next is in no transaction.
    run(pool, "CREATE TABLE mark ()").await;
    assert!(yes(pool, "SELECT to_regclass('mark') IS NOT NULL AND pg_current_xact_id_if_assigned() IS NULL").await, "{what}");
    run(pool, "DROP TABLE mark").await;
    run(pool, "UPDATE accounts SET balance_cents = 0").await;
}

macro_rules! on_exit {
    ($($test:ident: $exit:expr;)*) => {$(
        #[tokio::test]
        async fn $test() {
            let pool = postgres_with(1).await;
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

#[tokio::test]
async fn b4_a_prepared_transaction_is_caught_on_every_exit() {
    let pool = postgres_with(1).await;
    let most: String = sqlx::query_scalar("SHOW max_prepared_transactions").fetch_one(&pool).await.unwrap();
    // Its name is one for the whole server.
    let name = format!("inbox_test_{}", std::process::id());
    let prepare: &'static str = format!("PREPARE TRANSACTION '{name}'").leak();
    for exit in EXITS {
        if most == "0" {
            // The statement fails, and the body with it; the transaction is gone, nothing is applied.
            let id = new_id();
            assert!(billing(&pool, id, id, escaping(prepare, exit)).await.is_err());
            assert_untouched(&pool, "billing", id).await;
        } else {
            is_caught(&pool, prepare, exit).await;
            run(&pool, &format!("ROLLBACK PREPARED '{name}'")).await;
        }
    }
}

#[tokio::test]
async fn b4_a_transaction_swapped_for_another_one_is_caught() {
    let (pool, id) = (postgres_with(3).await, new_id());
    let swapping = {
        let pool = pool.clone();
        script(move |tx, id| {
            let pool = pool.clone();
            Box::pin(async move {
                note(tx, "billing", id).await?;
                let ours = std::mem::replace(tx, pool.begin().await?);
                ours.commit().await?;
                Err("no stock".into())
            })
        })
    };
    let failed = billing(&pool, id, id, swapping).await.unwrap_err();
    assert!(matches!(failed, ProcessError::TransactionEscaped), "{failed:?}");
}

#[tokio::test]
async fn b4_an_escaped_message_is_a_dead_letter_is_not_acked_and_stops_the_runner() {
    for (spelling, exit) in [("COMMIT", Exit::Err), ("ROLLBACK", Exit::Ok)] {
        let (pool, id, broker) = (postgres_with(2).await, new_id(), Memory::new());
        broker.publish(order(id, "{}"));
        let dispatcher = dispatcher(&pool, escaping(spelling, exit), &["billing", "shipping"]).await;
        let ended = serve(dispatcher, &broker, intake()).end().await.expect_err("it stops by itself");
        assert!(ended.to_string().contains("consumer `billing`: the handler ended the inbox transaction itself"), "{ended}");
        let counts = broker.counts();
        assert_eq!((counts.done, counts.dead_lettered, counts.ready + counts.held), (0, 0, 1), "{counts:?}");
        let letters = letters(&pool).await;
        assert_eq!(letters.len(), 1, "{letters:?}");
        let letter = &letters[0];
        assert_eq!((letter.reason.as_str(), letter.consumer_name.as_deref()), ("transaction_escaped", Some("billing")));
        assert_eq!((letter.message_id, letter.payload.as_deref()), (Some(id.as_uuid()), Some(b"{}".as_slice())));
        // The other consumer has nothing to do with it.
        assert_once(&pool, "shipping", id).await;
    }
}

#[tokio::test]
async fn b4_a_consumer_that_escaped_takes_no_more_in_this_process() {
    let (pool, first, second) = (postgres_with(2).await, new_id(), new_id());
    let dispatcher = dispatcher(&pool, escaping("COMMIT", Exit::Ok), &["billing"]).await;
    for id in [first, second] {
        let broker = Memory::new();
        broker.publish(order(id, "{}"));
        serve(dispatcher.clone(), &broker, intake()).end().await.expect_err("it stops");
        assert_eq!(broker.counts().ready, 1, "not acked");
    }
    assert_untouched(&pool, "billing", second).await;
    assert_eq!(letters(&pool).await.len(), 1, "the second message is not to blame");
}

/// The runner may drop what it waits for, when its subscription is gone say. The half effect must not become a duplicate in silence.
#[tokio::test]
async fn b4_an_escape_whose_caller_has_gone_is_dealt_with_all_the_same() {
    let (pool, id, broker) = (postgres_with(3).await, new_id(), Memory::new());
    broker.publish(order(id, "{}"));
    let dispatcher = dispatcher(&pool, escaping("COMMIT", Exit::Timeout), &["billing"]).await;
    let caller = {
        let (dispatcher, broker) = (dispatcher.clone(), broker.clone());
        tokio::spawn(async move { dispatch_one(&dispatcher, &broker).await })
    };
    until(&pool, "SELECT EXISTS (SELECT FROM applied)").await;
    caller.abort();
    assert!(caller.await.expect_err("aborted").is_cancelled());
    until(&pool, "SELECT EXISTS (SELECT FROM public.inbox_dead_letter WHERE reason = 'transaction_escaped')").await;
    let again = dispatch_one(&dispatcher, &broker).await;
    assert!(again.len() == 1 && again[0].contains("stopped because it ended its transaction itself"), "{again:?}");
}
