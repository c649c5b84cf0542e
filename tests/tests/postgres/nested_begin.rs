//! A nested `begin()` that is cancelled: sqlx 0.9.0 then queues a ROLLBACK of the *whole* transaction.

use std::{sync::Arc, time::Duration};

use inbox_runtime::{Inbox, MessageId, ProcessError, State, broker::Memory, idempotent_consumer};
use inbox_tests::{
    database::{bare_postgres, postgres_pool},
    proxy::Proxy,
};
use sqlx::{Acquire, PgPool, Postgres, Transaction};

use super::support::*;

#[idempotent_consumer(name = "nested", topic = "orders", timeout = "300ms")]
pub(super) async fn nested(tx: &mut Transaction<'_, Postgres>, id: MessageId, State(Script(body)): State<Script>) -> Ended {
    body(tx, id).await
}

/// A pool through a proxy, and one beside it that sees what stands in the database.
async fn through_a_proxy() -> (Arc<Proxy>, PgPool, PgPool) {
    let direct = bare_postgres().await;
    let watcher = postgres_pool(direct.clone(), 2).await;
    let proxy = Arc::new(Proxy::to(&direct).await);
    let pool = postgres_pool(proxy.through(direct), 3).await;
    Inbox::new(&pool).migrate().await.unwrap();
    Inbox::new(&pool).verify().await.unwrap();
    (proxy, pool, watcher)
}

/// Its timeout passes while it waits for a SAVEPOINT, the first time.
fn slow_savepoint(proxy: &Arc<Proxy>) -> State<Script> {
    let proxy = Arc::clone(proxy);
    let slow = Arc::new(std::sync::atomic::AtomicBool::new(true));
    script(move |tx, id| {
        let (proxy, slow) = (Arc::clone(&proxy), slow.swap(false, std::sync::atomic::Ordering::SeqCst));
        Box::pin(async move {
            proxy.latency(Duration::ZERO);
            note(tx, "nested", id).await?;
            proxy.latency(Duration::from_millis(if slow { 400 } else { 0 }));
            tx.begin().await?.commit().await?;
            Ok(())
        })
    })
}

#[tokio::test]
async fn a_timeout_within_a_nested_begin_is_a_timeout() {
    let ((proxy, pool, watcher), id) = (through_a_proxy().await, new_id());
    let body = slow_savepoint(&proxy);
    let failed = nested(&pool, id, id, body.clone()).await.unwrap_err();
    assert!(matches!(failed, ProcessError::TimedOut(_)), "{failed:?}");
    assert_untouched(&watcher, "nested", id).await;
    proxy.latency(Duration::ZERO);
    assert!(nested(&pool, id, id, body).await.unwrap().is_applied());
    assert_once(&watcher, "nested", id).await;
}

#[tokio::test]
async fn such_a_timeout_halts_no_runner() {
    let ((proxy, pool, watcher), id, broker) = (through_a_proxy().await, new_id(), Memory::new());
    let dispatcher = dispatcher(&pool, slow_savepoint(&proxy), &["nested"]).await;
    broker.publish(order(id, "{}"));
    let running = serve(dispatcher, &broker, intake());
    running.drain(&broker).await;
    running.stop().await.unwrap();
    assert_once(&watcher, "nested", id).await;
    assert!(letters(&watcher).await.is_empty());
}

/// A body that gives up its own `begin()` and returns its error: nothing was applied, and nothing is wrong with its code but time.
#[tokio::test]
async fn a_begin_that_the_body_gave_up_is_a_failure_or_a_swallowed_one() {
    let (proxy, pool, watcher) = through_a_proxy().await;
    for swallows in [false, true] {
        let (id, slow) = (new_id(), Arc::clone(&proxy));
        let body = script(move |tx, id| {
            let slow = Arc::clone(&slow);
            Box::pin(async move {
                note(tx, "billing", id).await?;
                slow.latency(Duration::from_millis(200));
                let late = tokio::time::timeout(Duration::from_millis(50), tx.begin()).await.is_err();
                slow.latency(Duration::ZERO);
                assert!(late);
                if swallows { Ok(()) } else { Err("too slow".into()) }
            })
        });
        let failed = billing(&pool, id, id, body).await.unwrap_err();
        let right = if swallows { matches!(failed, ProcessError::SwallowedSqlError) } else { matches!(failed, ProcessError::Handler(_)) };
        assert!(right, "{failed:?}");
        assert_untouched(&watcher, "billing", id).await;
    }
}

/// One that goes on after it works outside of the transaction, without any COMMIT in its SQL. It is caught, once: the message is a dead letter, and
/// its next delivery, to another process say, does not run it again.
#[tokio::test]
async fn b4_a_body_that_goes_on_after_a_cancelled_begin_is_not_run_again() {
    let ((proxy, pool, watcher), id) = (through_a_proxy().await, new_id());
    let slow = Arc::clone(&proxy);
    let body = script(move |tx, id| {
        let slow = Arc::clone(&slow);
        Box::pin(async move {
            slow.latency(Duration::from_millis(200));
            let late = tokio::time::timeout(Duration::from_millis(50), tx.begin()).await.is_err();
            slow.latency(Duration::ZERO);
            assert!(late);
            let mut nested = tx.begin().await?;
            note(&mut nested, "billing", id).await?;
            nested.commit().await?;
            Ok(())
        })
    });
    let broker = Memory::new();
    broker.publish(order(id, "{}"));
    let escaped = dispatcher(&pool, body, &["billing"]).await;
    serve(escaped, &broker, intake()).end().await.expect_err("it stops");
    assert_eq!(letters(&watcher).await.len(), 1);
    let restarted = serve(dispatcher(&pool, noting(), &["billing"]).await, &broker, intake());
    restarted.drain(&broker).await;
    restarted.stop().await.unwrap();
    assert_eq!(applied(&watcher, "billing", id).await, 1, "what was applied outside is not applied again");
    let letters = letters(&watcher).await;
    assert_eq!((letters.len(), letters[0].reason.as_str()), (1, "transaction_escaped"), "{letters:?}");
}
