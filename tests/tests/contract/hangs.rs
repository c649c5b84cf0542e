//! An adapter that never answers: the runner goes on or ends, and loses nothing.

use std::{
    future::{Future, pending},
    num::NonZeroU16,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use inbox_runtime::broker::{
    Broker, BrokerError, Delivery, Memory, MemoryHandle, MemorySubscription, Settle, Settled, Subscription, Terms,
};
use tokio_util::sync::CancellationToken;

use super::support::*;

/// Which call hangs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Hangs {
    Subscribe,
    Receive,
    Extend,
    Close,
    /// None, but every `receive` fails.
    Flaps,
}

struct Hung {
    memory: Memory,
    hangs: Hangs,
    subscribed: Arc<AtomicU32>,
}

struct HungSubscription {
    inner: MemorySubscription,
    hangs: Hangs,
}

impl HungSubscription {
    async fn hang(&self, here: Hangs) {
        if self.hangs == here {
            pending::<()>().await;
        }
    }
}

impl Broker for Hung {
    type Subscription = HungSubscription;

    fn name(&self) -> String {
        "hung".to_owned()
    }

    async fn subscribe(&self, prefetch: NonZeroU16) -> Result<HungSubscription, BrokerError> {
        self.subscribed.fetch_add(1, Ordering::SeqCst);
        let subscription = HungSubscription { inner: self.memory.subscribe(prefetch).await?, hangs: self.hangs };
        subscription.hang(Hangs::Subscribe).await;
        Ok(subscription)
    }
}

impl Subscription for HungSubscription {
    type Handle = MemoryHandle;

    fn terms(&self) -> Terms {
        self.inner.terms()
    }

    async fn receive(&self, max: NonZeroU16, wait: Duration) -> Result<Vec<Delivery<MemoryHandle>>, BrokerError> {
        self.hang(Hangs::Receive).await;
        if self.hangs == Hangs::Flaps {
            return Err(BrokerError::unavailable("it flaps"));
        }
        self.inner.receive(max, wait).await
    }

    fn extend(&self, held: &[&Delivery<MemoryHandle>]) -> impl Future<Output = Result<(), BrokerError>> + Send {
        let (hang, inner) = (self.hangs == Hangs::Extend, self.inner.extend(held));
        async move {
            if hang {
                pending::<()>().await;
            }
            inner.await
        }
    }

    async fn settle(&self, batch: Vec<Settle<MemoryHandle>>) -> Result<Vec<Settled>, BrokerError> {
        self.inner.settle(batch).await
    }

    async fn close(&self) -> Result<(), BrokerError> {
        self.hang(Hangs::Close).await;
        self.inner.close().await
    }
}

/// Whether the runner ended after it was told to, and how often it had subscribed.
async fn ends(hangs: Hangs) -> (Memory, u32) {
    let ((_pool, inbox), memory) = (pool().await, Memory::new().lease(Duration::from_millis(600)));
    let slow = script(|_| async {
        tokio::time::sleep(Duration::from_millis(400)).await;
        Ok(())
    });
    let (dispatcher, stop, subscribed) = (dispatcher(&inbox, slow).await, CancellationToken::new(), Arc::new(AtomicU32::new(0)));
    memory.publish(numbered(7));
    let broker = Hung { memory: memory.clone(), hangs, subscribed: Arc::clone(&subscribed) };
    let runner = inbox_runtime::Runner::new(dispatcher, broker, intake()).stop_on(stop.clone());
    let task = tokio::spawn(runner.retry(Duration::from_millis(20), Duration::from_secs(10)).run());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let subscriptions = subscribed.load(Ordering::SeqCst);
    stop.cancel();
    // Its own limits are ten seconds; a hang is for ever.
    let ended = tokio::time::timeout(Duration::from_secs(40), task).await;
    drop(ended.unwrap_or_else(|_| panic!("{hangs:?}: the runner did not end")).expect("it does not panic"));
    (memory, subscriptions)
}

#[tokio::test]
async fn a_subscribe_that_hangs_does_not_keep_the_runner() {
    let _ended = ends(Hangs::Subscribe).await;
}

#[tokio::test]
async fn a_receive_that_hangs_does_not_keep_the_runner() {
    let _ended = ends(Hangs::Receive).await;
}

#[tokio::test]
async fn a_close_that_hangs_does_not_keep_the_runner() {
    let (memory, _) = ends(Hangs::Close).await;
    assert_eq!(memory.counts().done, 1);
}

/// The body is done, so the message is settled, whatever becomes of its extension.
#[tokio::test]
async fn a_lease_that_is_not_extended_does_not_keep_a_finished_message() {
    let (memory, _) = ends(Hangs::Extend).await;
    let counts = memory.counts();
    assert_eq!((counts.done, counts.ready + counts.held), (1, 0), "{counts:?}");
}

/// Subscribing works and nothing else does: that is no recovery, and the pauses grow.
#[tokio::test]
async fn a_subscription_that_flaps_is_backed_off_from() {
    let (_memory, subscriptions) = ends(Hangs::Flaps).await;
    assert!((2..=10).contains(&subscriptions), "{subscriptions} subscriptions in two seconds");
}
