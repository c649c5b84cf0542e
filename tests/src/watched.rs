//! A broker around another one, which shows a test every settle before the inner broker hears of it.
#![allow(missing_debug_implementations, reason = "test support")]

use std::{future::Future, num::NonZeroU16, sync::Arc, time::Duration};

use inbox_runtime::{
    Dispatcher, IdFrom, InboxDatabase, Intake, Message, Unmatched,
    broker::{Broker, BrokerError, Delivery, Settle, Settled, Subscription, Terms, Verdict, settle},
};

/// What a test does at a settle.
pub trait Watch: Send + Sync + 'static {
    /// The runner has been given this message.
    fn received(&self, _message: &Message) {}

    /// The runner says that this message is finished, and the broker has not heard it yet.
    fn settling(&self, message: &Message, verdict: Verdict) -> impl Future<Output = ()> + Send;
}

/// Only the engine makes receipts, so the inner delivery is settled as what it is to an empty dispatcher: a message that no consumer
/// wants, and that is acked by decision.
pub struct Watched<DB: InboxDatabase, B, W> {
    inner: B,
    watch: Arc<W>,
    nobody: Dispatcher<DB>,
}

impl<DB: InboxDatabase, B, W> Watched<DB, B, W> {
    /// `nobody` is a dispatcher without consumers.
    pub fn new(inner: B, watch: Arc<W>, nobody: Dispatcher<DB>) -> Self {
        assert_eq!(nobody.consumers().count(), 0, "a dispatcher without consumers");
        Self { inner, watch, nobody }
    }
}

impl<DB: InboxDatabase, B: Broker, W: Watch> Broker for Watched<DB, B, W> {
    type Subscription = WatchedSubscription<DB, B::Subscription, W>;

    fn name(&self) -> String {
        format!("watched {}", self.inner.name())
    }

    async fn subscribe(&self, prefetch: NonZeroU16) -> Result<Self::Subscription, BrokerError> {
        let inner = self.inner.subscribe(prefetch).await?;
        Ok(WatchedSubscription { inner, watch: Arc::clone(&self.watch), nobody: self.nobody.clone() })
    }
}

pub struct WatchedSubscription<DB: InboxDatabase, S, W> {
    inner: S,
    watch: Arc<W>,
    nobody: Dispatcher<DB>,
}

/// The inner delivery, with its own handle in it.
pub struct WatchedHandle<H>(Delivery<H>);

impl<DB: InboxDatabase, S: Subscription, W: Watch> WatchedSubscription<DB, S, W> {
    fn done(&self, mut delivery: Delivery<S::Handle>) -> Settle<S::Handle> {
        let intake = Intake::new("watched", IdFrom::header("event-id")).unmatched(Unmatched::Ack);
        let _ = self.nobody.route(&mut delivery, &intake);
        // `Unproven` holds a handle, which need not be `Debug`.
        delivery.ack(Vec::new()).ok().expect("a message that nobody wants needs no receipt")
    }
}

impl<DB: InboxDatabase, S: Subscription, W: Watch> Subscription for WatchedSubscription<DB, S, W> {
    type Handle = WatchedHandle<S::Handle>;

    fn terms(&self) -> Terms {
        self.inner.terms()
    }

    async fn receive(&self, max: NonZeroU16, wait: Duration) -> Result<Vec<Delivery<Self::Handle>>, BrokerError> {
        // A short wait, so that a test's stop is noticed at once.
        let received = self.inner.receive(max, wait.min(Duration::from_millis(20))).await?;
        let wrap = |inner: Delivery<S::Handle>| {
            self.watch.received(inner.message());
            let (message, origin, lease) = (inner.message().as_ref().clone(), inner.origin().clone(), inner.lease().clone());
            Delivery::new(message, origin, lease, WatchedHandle(inner))
        };
        Ok(received.into_iter().map(wrap).collect())
    }

    async fn extend(&self, held: &[&Delivery<Self::Handle>]) -> Result<(), BrokerError> {
        let held: Vec<&Delivery<S::Handle>> = held.iter().map(|delivery| &delivery.handle().0).collect();
        self.inner.extend(&held).await
    }

    async fn settle(&self, batch: Vec<Settle<Self::Handle>>) -> Result<Vec<Settled>, BrokerError> {
        let mut settles = Vec::with_capacity(batch.len());
        for (WatchedHandle(inner), verdict) in batch.into_iter().map(Settle::into_parts) {
            self.watch.settling(inner.message(), verdict).await;
            settles.push(match verdict {
                Verdict::Done | Verdict::DeadLettered => self.done(inner),
                Verdict::Retry { after } => inner.retry(after),
            });
        }
        // Leases may have ended while the test looked.
        settle(&self.inner, settles, Duration::from_secs(10)).await
    }

    async fn close(&self) -> Result<(), BrokerError> {
        self.inner.close().await
    }
}
