use std::{fmt::Debug, future::Future, num::NonZeroU16, time::Duration};

use super::{
    delivery::Delivery,
    settle::{Settle, Settled},
};
use crate::vocabulary::error::BoxError;

/// Where deliveries come from and how to get there. Cheap: nothing is connected before `subscribe`.
pub trait Broker: Send + Sync + 'static {
    /// A live subscription of this broker.
    type Subscription: Subscription;

    /// For spans, metrics and errors, as in `kafka:orders`.
    fn name(&self) -> String;

    /// One attempt to connect and start. At most `prefetch` deliveries are unsettled at any time; zero cannot be written.
    ///
    /// # Errors
    ///
    /// [`BrokerError::Unavailable`] is tried again with backoff, [`BrokerError::Fatal`] ends the runner.
    fn subscribe(&self, prefetch: NonZeroU16) -> impl Future<Output = Result<Self::Subscription, BrokerError>> + Send;
}

/// One connection's worth of deliveries. What it cannot mend is an error, and the runner subscribes again, with backoff.
///
/// Three rules that no signature says: a lost settle loses nothing (the message comes again, and the inbox knows it), so
/// nothing here is sent twice; an empty `receive` is a claim that the broker answered; a handle is complete in itself and
/// settles through no other channel or epoch.
pub trait Subscription: Send + Sync + 'static {
    /// All that a settle needs: a tag and its channel, a receipt handle, a partition's epoch and offset. Private fields and
    /// no `Clone`: it moves into the [`Delivery`] and comes back only inside a [`Settle`].
    type Handle: Send + Sync + 'static;

    /// For the checks at start and for the lease keeper.
    fn terms(&self) -> Terms;

    /// Up to `max` deliveries as soon as there is one, or none after `wait`: the broker answered and had none.
    ///
    /// The runner polls it to its end (it need not be cancel safe) and one call at a time. Keeping a membership alive between
    /// calls is the adapter's business.
    ///
    /// # Errors
    ///
    /// When the subscription is gone; what it had handed out stays valid for as long as each lease says.
    fn receive(&self, max: NonZeroU16, wait: Duration) -> impl Future<Output = Result<Vec<Delivery<Self::Handle>>, BrokerError>> + Send;

    /// Called each third of [`Terms::lease`] with all deliveries that are held, waiting ones too. Renews or ends each lease.
    ///
    /// # Errors
    ///
    /// When the subscription is gone.
    fn extend(&self, _held: &[&Delivery<Self::Handle>]) -> impl Future<Output = Result<(), BrokerError>> + Send {
        async { Ok(()) }
    }

    /// Tells the broker; an answer for each, in order. Called through [`settle`](super::settle::settle) only, which takes
    /// out the late ones and brings the time limit.
    ///
    /// # Errors
    ///
    /// When the subscription is gone. Nothing is repeated: what was not told comes again.
    fn settle(&self, batch: Vec<Settle<Self::Handle>>) -> impl Future<Output = Result<Vec<Settled>, BrokerError>> + Send;

    /// After the last settle: hand in what is stored, give back what is prefetched, leave. Never blocks a runtime worker.
    ///
    /// # Errors
    ///
    /// When leaving failed; the broker then notices by itself.
    fn close(&self) -> impl Future<Output = Result<(), BrokerError>> + Send;
}

/// What a subscription's server promises about time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// How long a delivery stays ours without `extend`; `None`: no lease, or none that can be extended.
    pub lease: Option<Duration>,
    /// The longest time after which a message may come again (`None`: no bound).
    pub horizon: Option<Duration>,
}

/// Why a subscription cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// Out of reach: subscribe again.
    #[error("the broker is out of reach: {0}")]
    Unavailable(#[source] BoxError),
    /// Refused for good, by configuration or by permission.
    #[error("the broker refuses this subscription: {0}")]
    Fatal(#[source] BoxError),
}

impl BrokerError {
    /// An error that trying again may mend.
    pub fn unavailable(cause: impl Into<BoxError>) -> Self {
        Self::Unavailable(cause.into())
    }

    /// An error that trying again cannot mend.
    pub fn fatal(cause: impl Into<BoxError>) -> Self {
        Self::Fatal(cause.into())
    }
}
