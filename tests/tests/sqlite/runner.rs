//! Deliveries through a runner: which of them run, and when the broker is told.

use inbox_runtime::{
    Outcome,
    broker::{Faults, Memory},
};
use inbox_tests::database::sqlite;

use super::support::*;

#[tokio::test]
async fn a6_of_new_duplicate_new_and_repeat_each_new_one_runs_once_and_all_are_acked() {
    let ((pool, _dir), broker) = (sqlite().await, Memory::new());
    let (old, first, second) = (new_id(), new_id(), new_id());
    assert_eq!(billing(&pool, old, old, noting()).await.unwrap(), Outcome::Applied(()));
    for id in [first, old, second, first] {
        broker.publish(order(id));
    }
    let running = serve(dispatcher(&pool, noting(), &["billing"]).await, &broker);
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
    let ((pool, _dir), broker, x, y) = (sqlite().await, Memory::new(), new_id(), new_id());
    for id in [x, x, y] {
        // One key: what follows a message that is given back is held back.
        broker.publish(order(id).with_key("account 1"));
    }
    let running = serve(dispatcher(&pool, noting(), &["billing"]).await, &broker);
    running.drain(&broker).await;
    running.stop().await.unwrap();
    let counts = broker.counts();
    assert_eq!((counts.deliveries, counts.done, counts.retried), (3, 3, 0), "{counts:?}");
    assert_once(&pool, "billing", x).await;
    assert_once(&pool, "billing", y).await;
}

/// Everything that a broker may do short of losing a message, from several seeds.
#[tokio::test]
async fn a_hostile_broker_doubles_nothing_and_loses_nothing() {
    for seed in 0..4 {
        let (pool, _dir) = sqlite().await;
        let faults = Faults::seeded(seed).duplicate(0.3).lose_settle(0.3).shuffle().unavailable(0.1);
        let broker = Memory::with_faults(faults.cap_retry(std::time::Duration::from_millis(5)));
        let ids: Vec<_> = (0..40).map(|_| new_id()).collect();
        ids.iter().for_each(|id| broker.publish(order(*id)));
        let running = serve(dispatcher(&pool, noting(), &["billing", "shipping"]).await, &broker);
        running.drain(&broker).await;
        running.stop().await.unwrap();
        assert!(broker.counts().deliveries > 40, "seed {seed}: the broker was not hostile");
        for id in ids {
            assert_once(&pool, "billing", id).await;
            assert_once(&pool, "shipping", id).await;
        }
        assert_eq!(letters(&pool).await, []);
    }
}

#[tokio::test]
async fn what_comes_again_is_no_second_letter() {
    let (pool, _dir) = sqlite().await;
    let broker = Memory::with_faults(Faults::seeded(7).lose_settle(0.8));
    (0..2).for_each(|_| broker.publish(inbox_runtime::Message::new("orders", "{}")));
    let nobodys = inbox_runtime::Message::new("nobody's", "{}").with_header("id", new_id().to_string());
    broker.publish(nobodys);
    let running = serve(dispatcher(&pool, noting(), &["billing"]).await, &broker);
    running.drain(&broker).await;
    running.stop().await.unwrap();
    assert!(broker.counts().deliveries > 6, "{:?}", broker.counts());
    let stored: i64 = sqlx::query_scalar("SELECT count(*) FROM inbox_dead_letter").fetch_one(&pool).await.unwrap();
    assert_eq!(stored, 3);
}
