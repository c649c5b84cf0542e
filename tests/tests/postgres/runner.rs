//! Deliveries through a runner: which of them run, and when the broker is told.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use inbox_runtime::{EventTypeFrom, RunError, Unmatched, broker::Memory, idempotent_consumer};
use inbox_tests::database::postgres_with;
use sqlx::{Postgres, Transaction};

use super::support::*;

#[tokio::test]
async fn a6_of_new_duplicate_new_and_repeat_each_new_one_runs_once_and_all_are_acked() {
    let (pool, broker) = (postgres_with(2).await, Memory::new());
    let (old, first, second) = (new_id(), new_id(), new_id());
    let _ = billing(&pool, old, old, noting()).await.unwrap();
    for id in [first, old, second, first] {
        broker.publish(order(id, "{}"));
    }
    let running = serve(dispatcher(&pool, noting(), &["billing"]).await, &broker, intake());
    running.drain(&broker).await;
    running.stop().await.unwrap();
    let counts = broker.counts();
    assert_eq!((counts.deliveries, counts.done, counts.retried, counts.dead_lettered), (4, 4, 0, 0), "{counts:?}");
    for id in [old, first, second] {
        assert_once(&pool, "billing", id).await;
    }
}

#[tokio::test]
async fn a14_a_duplicate_is_acked_and_what_follows_is_processed() {
    let (pool, broker, x, y) = (postgres_with(2).await, Memory::new(), new_id(), new_id());
    for id in [x, x, y] {
        // One key: the broker would hold back what follows a message that is given back.
        broker.publish(order(id, "{}").with_key("account 1"));
    }
    let running = serve(dispatcher(&pool, noting(), &["billing"]).await, &broker, intake());
    running.drain(&broker).await;
    running.stop().await.unwrap();
    let counts = broker.counts();
    assert_eq!((counts.deliveries, counts.done, counts.retried), (3, 3, 0), "no attempt was counted twice: {counts:?}");
    assert_once(&pool, "billing", x).await;
    assert_once(&pool, "billing", y).await;
}

#[tokio::test]
async fn one_consumer_of_several_fails_and_only_that_one_runs_again() {
    let (pool, broker, id) = (postgres_with(2).await, Memory::new(), new_id());
    let attempts = Arc::new(AtomicU32::new(0));
    let flaky = {
        let attempts = Arc::clone(&attempts);
        script(move |tx, id| {
            let attempt = attempts.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move {
                note(tx, "billing", id).await?;
                if attempt == 0 { Err("no stock".into()) } else { Ok(()) }
            })
        })
    };
    let dispatcher = dispatcher(&pool, flaky, &["billing", "shipping"]).await;
    broker.publish(order(id, "{}"));
    // The first delivery, by hand: what is applied stays, and the message is not settled.
    let failures = dispatch_one(&dispatcher, &broker).await;
    assert_eq!(failures, ["consumer `billing`: the handler failed: no stock"]);
    assert_untouched(&pool, "billing", id).await;
    assert_once(&pool, "shipping", id).await;
    assert_eq!(broker.counts().done, 0);
    let running = serve(dispatcher, &broker, intake());
    running.drain(&broker).await;
    running.stop().await.unwrap();
    assert_eq!(broker.counts().done, 1);
    assert_eq!(attempts.load(Ordering::SeqCst), 2);
    assert_once(&pool, "billing", id).await;
    assert_once(&pool, "shipping", id).await;
}

#[tokio::test]
async fn a_failing_message_comes_again_until_it_is_applied() {
    let (pool, broker, id) = (postgres_with(2).await, Memory::new(), new_id());
    let attempts = Arc::new(AtomicU32::new(0));
    let flaky = {
        let attempts = Arc::clone(&attempts);
        script(move |tx, id| {
            let attempt = attempts.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move {
                note(tx, "billing", id).await?;
                match attempt {
                    0 => Err("no stock".into()),
                    1 => panic!("a bug"),
                    2 => {
                        let _ = raw(tx, "SELECT 1 / 0").await;
                        Ok(())
                    }
                    _ => Ok(()),
                }
            })
        })
    };
    broker.publish(order(id, "{}"));
    let running = serve(dispatcher(&pool, flaky, &["billing"]).await, &broker, intake());
    running.drain(&broker).await;
    running.stop().await.unwrap();
    let counts = broker.counts();
    assert_eq!((counts.deliveries, counts.retried, counts.done), (4, 3, 1), "{counts:?}");
    assert_once(&pool, "billing", id).await;
}

#[idempotent_consumer(name = "paid", topic = "payments", event = "OrderPaid")]
async fn paid(tx: &mut Transaction<'_, Postgres>, id: inbox_runtime::MessageId) -> Result<(), sqlx::Error> {
    note(tx, "paid", id).await
}

#[tokio::test]
async fn events_are_routed_by_their_type_and_the_rest_is_a_decision() {
    let (pool, broker) = (postgres_with(2).await, Memory::new());
    let (wanted, other) = (new_id(), new_id());
    let message = |id, event: &'static str| {
        let mut message = order(id, "{}").with_header("type", event);
        "payments".clone_into(&mut message.topic);
        message
    };
    broker.publish(message(wanted, "OrderPaid"));
    broker.publish(message(other, "OrderPlaced"));
    let build = || inbox_runtime::Dispatcher::builder(&pool).only(["paid"]).build();
    let unclear = serve(build().await.unwrap(), &broker, intake()).end().await;
    assert!(matches!(unclear, Err(RunError::Start(_))), "a type is wanted, and nobody said where it stands: {unclear:?}");
    let intake = intake().event_type(EventTypeFrom::header("type")).unmatched(Unmatched::Ack);
    let running = serve(build().await.unwrap(), &broker, intake);
    running.drain(&broker).await;
    running.stop().await.unwrap();
    assert_eq!((broker.counts().done, broker.counts().dead_lettered), (2, 0));
    assert_once(&pool, "paid", wanted).await;
    assert_untouched(&pool, "paid", other).await;
}

#[tokio::test]
async fn a_database_that_is_away_costs_no_message() {
    let direct = inbox_tests::database::bare_postgres().await;
    let proxy = inbox_tests::proxy::Proxy::to(&direct).await;
    let watcher = inbox_tests::database::postgres_pool(direct.clone(), 2).await;
    inbox_runtime::Inbox::new(&watcher).migrate().await.unwrap();
    let pool = inbox_tests::database::postgres_pool(proxy.through(direct), 2).await;
    let (broker, ids) = (Memory::new(), [(); 12].map(|()| new_id()));
    let cutting = {
        let proxy = Arc::new(proxy);
        let left = Arc::new(AtomicU32::new(6));
        script(move |tx, id| {
            let cut = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
            let proxy = Arc::clone(&proxy);
            Box::pin(async move {
                note(tx, "billing", id).await?;
                if cut {
                    proxy.cut();
                }
                Ok(())
            })
        })
    };
    for id in ids {
        broker.publish(order(id, "{}"));
    }
    let running = serve(dispatcher(&pool, cutting, &["billing"]).await, &broker, intake());
    running.drain(&broker).await;
    running.stop().await.unwrap();
    assert_eq!(broker.counts().done, 12);
    for id in ids {
        assert_once(&watcher, "billing", id).await;
    }
    assert!(letters(&watcher).await.is_empty());
}
