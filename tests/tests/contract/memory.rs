//! The in-memory broker is a broker: it forgets nothing that was not settled, and does to a consumer all that brokers do.

use std::{collections::BTreeSet, time::Duration};

use inbox_runtime::broker::{Broker, BrokerError, Faults, Memory, MemoryCounts, Settled, Subscription};

use super::support::*;

fn filled(broker: Memory, messages: u128) -> Memory {
    (1..=messages).for_each(|n| broker.publish(numbered(n)));
    broker
}

#[tokio::test]
async fn what_is_not_acked_comes_again_with_the_next_attempt() {
    let broker = filled(Memory::new(), 3);
    for attempt in 1..=3 {
        let from = subscribe(&broker, 10).await;
        let deliveries = receive(&from).await;
        assert_eq!(numbers(&deliveries), [1, 2, 3]);
        assert!(deliveries.iter().all(|delivery| delivery.origin().attempt == Some(attempt)));
        assert_eq!(deliveries[0].origin().transport_id.as_deref(), Some("memory/1"), "one message, one name");
        assert_eq!((broker.counts().held, broker.counts().ready), (3, 0));
        // Dropped with all that it held.
        drop(from);
        assert_eq!((broker.counts().held, broker.counts().ready), (0, 3));
        assert!(deliveries.iter().all(|delivery| !delivery.lease().is_live()));
    }
    assert_eq!(broker.counts().deliveries, 9);
}

#[tokio::test]
async fn no_more_is_handed_out_than_was_asked_for() {
    let broker = filled(Memory::new(), 10);
    let from = subscribe(&broker, 4).await;
    let first = from.receive(some(2), Duration::ZERO).await.unwrap();
    assert_eq!(numbers(&first), [1, 2]);
    let second = receive(&from).await;
    assert!(first.len() + second.len() <= 4, "a prefetch of 4 means 4 unsettled, however often it is asked: {}", second.len());
    assert_eq!(numbers(&receive(&from).await), [0; 0]);
    // A settled one makes room for one.
    let settled = tell(&from, first.into_iter().take(1).map(|delivery| delivery.retry(Duration::from_secs(600))).collect()).await;
    assert!(matches!(settled[..], [Settled::Sent]));
    assert_eq!(receive(&from).await.len(), 1);
    // Another consumer has a prefetch of its own.
    assert_eq!(receive(&subscribe(&broker, 3).await).await.len(), 3);
}

#[tokio::test]
async fn an_empty_receive_waits_and_a_publish_ends_the_wait() {
    let broker = Memory::new();
    let from = subscribe(&broker, 4).await;
    assert_eq!(from.receive(some(1), Duration::from_millis(5)).await.unwrap().len(), 0);
    let waiting = tokio::spawn(async move { from.receive(some(1), Duration::from_secs(600)).await.unwrap().len() });
    broker.publish(numbered(1));
    assert_eq!(bounded(waiting).await.unwrap(), 1);
}

#[tokio::test]
async fn a_retry_comes_not_before_its_time() {
    let broker = filled(Memory::new(), 2);
    let from = subscribe(&broker, 10).await;
    let [first, second] = <[_; 2]>::try_from(receive(&from).await).unwrap();
    tell(&from, vec![first.retry(Duration::from_secs(600)), second.retry(Duration::ZERO)]).await;
    let again = receive(&from).await;
    assert_eq!(numbers(&again), [2]);
    assert_eq!(again[0].origin().attempt, Some(2));
    assert_eq!((broker.counts().ready, broker.counts().retried), (1, 2));
    assert!(!broker.is_empty());
    let begun = tokio::time::Instant::now();
    tell(&from, again.into_iter().map(|delivery| delivery.retry(Duration::from_millis(50))).collect()).await;
    let later = from.receive(some(1), Duration::from_secs(60)).await.unwrap();
    assert_eq!(numbers(&later), [2]);
    assert!(begun.elapsed() >= Duration::from_millis(50), "{:?}", begun.elapsed());
}

/// All that a seed decides: what is delivered in which order, what is lost, and when the broker is away.
async fn story(seed: u64) -> (Vec<String>, MemoryCounts) {
    let faults = Faults::seeded(seed).duplicate(0.3).lose_settle(0.3).shuffle().unavailable(0.2).cap_retry(Duration::from_nanos(1));
    let broker = filled(Memory::with_faults(faults), 12);
    let mut told = Vec::new();
    for _ in 0..60 {
        let Ok(from) = broker.subscribe(some(5)).await else {
            told.push("away".to_owned());
            continue;
        };
        match from.receive(some(5), Duration::ZERO).await {
            Ok(deliveries) => {
                told.push(format!("{:?}", numbers(&deliveries)));
                let settles = deliveries.into_iter().map(|delivery| delivery.retry(Duration::ZERO)).collect();
                told.push(format!("{:?}", from.settle(settles).await.is_ok()));
            }
            Err(error) => told.push(error.to_string()),
        }
    }
    (told, broker.counts())
}

#[tokio::test]
async fn the_same_seed_tells_the_same_story_and_another_one_another() {
    let (first, again, other) = (story(7).await, story(7).await, story(8).await);
    assert_eq!(first, again);
    assert_ne!(first.0, other.0);
}

#[tokio::test]
async fn shuffled_messages_come_in_other_orders_and_all_of_them() {
    let mut orders = BTreeSet::new();
    for seed in 0..8 {
        let broker = filled(Memory::with_faults(Faults::seeded(seed).shuffle()), 6);
        let mut order = numbers(&receive(&subscribe(&broker, 10).await).await);
        orders.insert(order.clone());
        order.sort_unstable();
        assert_eq!(order, [1, 2, 3, 4, 5, 6]);
    }
    assert!(orders.len() > 4, "{orders:?}");
    assert_eq!(numbers(&receive(&subscribe(&filled(Memory::new(), 6), 10).await).await), [1, 2, 3, 4, 5, 6], "not unless asked for");
}

#[tokio::test]
async fn a_duplicated_message_is_held_twice_and_counts_as_one() {
    let broker = filled(Memory::with_faults(Faults::seeded(1).duplicate(1.0)), 1);
    let from = subscribe(&broker, 2).await;
    let deliveries = receive(&from).await;
    assert_eq!(numbers(&deliveries), [1, 1]);
    assert_eq!(deliveries[0].origin().transport_id, deliveries[1].origin().transport_id);
    assert_eq!(broker.counts().published, 1);
}

#[tokio::test]
async fn a_lost_settle_is_answered_and_the_message_comes_again() {
    let broker = filled(Memory::with_faults(Faults::seeded(1).lose_settle(1.0)), 1);
    let from = subscribe(&broker, 2).await;
    let settles = receive(&from).await.into_iter().map(|delivery| delivery.retry(Duration::from_secs(600))).collect();
    assert!(matches!(tell(&from, settles).await[..], [Settled::Sent]));
    assert_eq!((broker.counts().ready, broker.counts().retried), (1, 0), "the retry and its delay are lost");
    assert_eq!(numbers(&receive(&from).await), [1]);
}

#[tokio::test]
async fn a_broker_that_is_down_says_so_and_keeps_everything() {
    let broker = filled(Memory::new(), 2);
    let from = subscribe(&broker, 10).await;
    let held = from.receive(some(1), Duration::ZERO).await.unwrap();
    broker.set_down(true);
    assert!(matches!(broker.subscribe(some(1)).await.map(drop), Err(BrokerError::Unavailable(_))));
    assert!(matches!(from.receive(some(1), Duration::ZERO).await.map(drop), Err(BrokerError::Unavailable(_))));
    assert!(matches!(from.extend(&held.iter().collect::<Vec<_>>()).await, Err(BrokerError::Unavailable(_))));
    let settles = held.into_iter().map(|delivery| delivery.retry(Duration::ZERO)).collect();
    assert!(matches!(from.settle(settles).await.map(drop), Err(BrokerError::Unavailable(_))));
    // Messages can still arrive there.
    broker.publish(numbered(3));
    drop(from);
    broker.set_down(false);
    let mut all = numbers(&receive(&subscribe(&broker, 10).await).await);
    all.sort_unstable();
    assert_eq!(all, [1, 2, 3]);
}

#[tokio::test]
async fn a_runner_subscribes_again_after_an_outage_and_loses_nothing() {
    let ((pool, inbox), broker) = (pool().await, Memory::new());
    let away = broker.clone();
    // The broker goes down while bodies run, several times.
    let body = script(move |number| {
        away.set_down(number % 5 == 0);
        async { Ok(()) }
    });
    let broker = filled(broker, 20);
    let running = serve(dispatcher(&inbox, body).await, broker.clone(), intake());
    bounded(async {
        while applied(&pool).await.len() < 20 || !broker.is_empty() {
            broker.set_down(false);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    running.stop().await.unwrap();
    let mut all = applied(&pool).await;
    all.sort_unstable();
    assert_eq!(all, (1..=20).collect::<Vec<_>>(), "each once");
    assert_eq!(broker.counts().done, 20, "each acked");
    assert!(broker.counts().deliveries > 20, "the outages cost deliveries");
}

#[tokio::test]
async fn a_runner_on_a_broker_that_is_away_waits_for_it_and_can_be_stopped() {
    let ((pool, inbox), broker) = (pool().await, filled(Memory::new(), 1));
    broker.set_down(true);
    let stopped = serve(dispatcher(&inbox, noting()).await, broker.clone(), intake());
    stopped.stop().await.expect("it stops though the broker is away");
    let running = serve(dispatcher(&inbox, noting()).await, broker.clone(), intake());
    broker.set_down(false);
    running.drain(&broker).await;
    running.stop().await.unwrap();
    assert_eq!(applied(&pool).await, [1]);
}
