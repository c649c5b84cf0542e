//! A delivery is ours for a time. It is kept while its body runs, and what is settled too late is told as late.

use std::{sync::Arc, time::Duration};

use inbox_runtime::broker::{Lease, Memory, Settled, Subscription};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep},
};

use super::support::*;

const SHORT: Duration = Duration::from_millis(30);

#[tokio::test]
async fn a_lease_that_runs_out_gives_the_message_to_another_and_the_late_settle_is_told() {
    let broker = Memory::new().lease(SHORT);
    broker.publish(numbered(1));
    let (first, second) = (subscribe(&broker, 1).await, subscribe(&broker, 1).await);
    let late = receive(&first).await.pop().unwrap();
    let again = bounded(second.receive(some(1), Duration::from_secs(60))).await.unwrap().pop().unwrap();
    assert_eq!((number(again.message()), again.origin().attempt), (1, Some(2)));
    assert!(!late.lease().is_live());
    let settled = tell(&first, vec![late.retry(Duration::ZERO)]).await;
    assert!(matches!(settled[..], [Settled::Late]), "{settled:?}");
    assert_eq!((broker.counts().retried, broker.counts().held), (0, 1), "the other one's delivery is untouched");
    drop(again);
}

/// Late ones are taken out of a batch, and the others are told in their places.
#[tokio::test]
async fn a_batch_is_answered_in_order_with_the_late_ones_in_it() {
    let broker = Memory::new();
    (1..=4).for_each(|n| broker.publish(numbered(n)));
    let from = subscribe(&broker, 10).await;
    let deliveries = receive(&from).await;
    for delivery in &deliveries {
        if number(delivery.message()) % 2 == 1 {
            delivery.lease().end();
        }
    }
    let settled = tell(&from, deliveries.into_iter().map(|delivery| delivery.retry(Duration::ZERO)).collect()).await;
    assert!(matches!(settled[..], [Settled::Late, Settled::Sent, Settled::Late, Settled::Sent]), "{settled:?}");
    assert_eq!(broker.counts().retried, 2);
}

#[tokio::test]
async fn an_extended_delivery_stays_ours() {
    let broker = Memory::new().lease(Duration::from_millis(300));
    broker.publish(numbered(1));
    let (from, other) = (subscribe(&broker, 1).await, subscribe(&broker, 1).await);
    let held = receive(&from).await;
    let until = Instant::now() + Duration::from_millis(900);
    while Instant::now() < until {
        from.extend(&[&held[0]]).await.unwrap();
        assert_eq!(numbers(&receive(&other).await), [0; 0]);
        sleep(Duration::from_millis(20)).await;
    }
    assert!(held[0].lease().is_live());
    let settled = tell(&from, held.into_iter().map(|delivery| delivery.retry(Duration::ZERO)).collect()).await;
    assert!(matches!(settled[..], [Settled::Sent]), "{settled:?}");
}

#[tokio::test]
async fn a_lease_that_ended_is_not_renewed() {
    let lease = Lease::until(Instant::now());
    lease.renew(Instant::now() + Duration::from_secs(600));
    assert!(!lease.is_live(), "somebody else may hold the message by now");
    let (session, now) = (Lease::new(), Instant::now());
    let (long, ended) = (session.child_until(now + Duration::from_secs(600)), session.child_until(now + Duration::from_secs(600)));
    ended.end();
    assert!(long.is_live() && session.is_live() && !ended.is_live(), "a child takes only itself along");
    session.end();
    bounded(long.ended()).await;
    assert!(!long.is_live(), "a session takes its deliveries along");
}

/// D2, D17: the body takes several times the lease, and another message waits behind it all the while.
#[tokio::test]
async fn d2_d17_a_slow_body_keeps_its_delivery_and_those_that_wait_behind_it() {
    let ((pool, inbox), broker) = (pool().await, Memory::new().lease(Duration::from_millis(300)));
    (1..=3).for_each(|n| broker.publish(numbered(n)));
    let body = script(|number| async move {
        if number == 1 {
            sleep(Duration::from_secs(1)).await;
        }
        Ok(())
    });
    // A second worker, which would get what the first one loses.
    let running = [1, 2].map(|_| (dispatcher(&inbox, body.clone()), broker.clone()));
    let mut runners = Vec::new();
    for (dispatcher, broker) in running {
        runners.push(serve(dispatcher.await, broker, intake()));
    }
    runners[0].drain(&broker).await;
    for runner in runners {
        runner.stop().await.unwrap();
    }
    let counts = broker.counts();
    assert_eq!((counts.deliveries, counts.done, counts.retried), (3, 3, 0), "{counts:?}");
    let mut all = applied(&pool).await;
    all.sort_unstable();
    assert_eq!(all, [1, 2, 3]);
}

/// D2: the lease is gone before the body ends. The late settle is suppressed, the redelivery is a duplicate, and nothing is lost.
#[tokio::test]
async fn d2_a_message_whose_lease_was_taken_away_is_applied_once() {
    let ((pool, inbox), broker) = (pool().await, Memory::new());
    let go = Arc::new(Semaphore::new(0));
    let waiting = Arc::clone(&go);
    let body = script(move |_| {
        let go = Arc::clone(&waiting);
        async move {
            go.acquire().await?.forget();
            Ok(())
        }
    });
    let dispatcher = dispatcher(&inbox, body).await;
    broker.publish(numbered(1));
    let from = subscribe(&broker, 1).await;
    let mut delivery = receive(&from).await.pop().unwrap();
    let lease = delivery.lease().clone();
    let running = tokio::spawn(async move {
        let done = dispatcher.dispatch(&mut delivery, &intake()).await;
        (delivery.ack(done.receipts).expect("it was applied"), dispatcher)
    });
    lease.end();
    go.add_permits(1);
    let (settle, dispatcher) = bounded(running).await.unwrap();
    assert!(matches!(tell(&from, vec![settle]).await[..], [Settled::Late]));
    assert_eq!(broker.counts().done, 0);
    let mut again = receive(&from).await.pop().expect("it comes again");
    let done = dispatcher.dispatch(&mut again, &intake()).await;
    assert!(matches!(tell(&from, vec![again.ack(done.receipts).unwrap()]).await[..], [Settled::Sent]));
    assert_eq!((broker.counts().done, applied(&pool).await), (1, vec![1]));
}
