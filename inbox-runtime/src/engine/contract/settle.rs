use std::{fmt, time::Duration};

use tokio::time::timeout;

use super::{
    broker::{BrokerError, Subscription},
    lease::Lease,
};
use crate::vocabulary::error::BoxError;

/// A delivery's handle with its verdict. Only [`Delivery::ack`](super::delivery::Delivery::ack) and
/// [`Delivery::retry`](super::delivery::Delivery::retry) make one.
#[must_use = "tell the broker"]
pub struct Settle<H> {
    handle: H,
    lease: Lease,
    verdict: Verdict,
}

impl<H> Settle<H> {
    pub(super) const fn new(handle: H, lease: Lease, verdict: Verdict) -> Self {
        Self { handle, lease, verdict }
    }

    pub(in crate::engine) const fn gives_back(&self) -> bool {
        matches!(self.verdict, Verdict::Retry { .. })
    }

    /// For adapters: what to tell, and about which delivery.
    pub fn into_parts(self) -> (H, Verdict) {
        (self.handle, self.verdict)
    }
}

impl<H> fmt::Debug for Settle<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settle").field("verdict", &self.verdict).finish_non_exhaustive()
    }
}

/// What to tell the broker. Exhaustive: a new one has to break every adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Every consumer has applied it, now or before.
    Done,
    /// At least one consumer has it as a dead letter, stored by us: ack it, or terminate it (NATS).
    DeadLettered,
    /// Deliver it again.
    Retry {
        /// Not before this long.
        after: Duration,
    },
}

/// What became of a settle.
#[derive(Debug)]
pub enum Settled {
    /// Confirmed, or sent where the broker never confirms (RabbitMQ, Kafka's offset store).
    Sent,
    /// Lease or epoch are gone: not sent. The message comes again, or another holder settles it.
    Late,
    /// The broker refused. The message comes again.
    Failed(BoxError),
}

/// The one way to [`Subscription::settle`]: late ones are taken out, the others have `limit` to be answered.
///
/// # Errors
///
/// The adapter's, or `Unavailable` when `limit` passed.
pub async fn settle<S: Subscription>(to: &S, batch: Vec<Settle<S::Handle>>, limit: Duration) -> Result<Vec<Settled>, BrokerError> {
    let live: Vec<bool> = batch.iter().map(|settle| settle.lease.is_live()).collect();
    let send: Vec<_> = batch.into_iter().zip(&live).filter_map(|(settle, live)| live.then_some(settle)).collect();
    let answers = if send.is_empty() { Vec::new() } else { timeout(limit, to.settle(send)).await.map_err(BrokerError::unavailable)?? };
    let mut answers = answers.into_iter();
    let mut answer = || answers.next().unwrap_or_else(|| Settled::Failed("the adapter gave no answer".into()));
    Ok(live.into_iter().map(|live| if live { answer() } else { Settled::Late }).collect())
}
