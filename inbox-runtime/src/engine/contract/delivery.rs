use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;

use super::{
    lease::Lease,
    receipt::{Proof, Receipt, Ticket},
    settle::{Settle, Verdict},
};
use crate::vocabulary::message::Message;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// What only the broker knows about a delivery.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The message's own name there (`orders/3/42`, an SQS MessageId); `None` where there is none (RabbitMQ).
    pub transport_id: Option<String>,
    /// Deliveries with equal keys run one at a time, in the order received; `None` promises no order.
    pub order_key: Option<Bytes>,
    /// From 1, as the broker counts; `None`: it does not. Never the only guard against a poisoned message.
    pub attempt: Option<u32>,
}

/// One arrival of a message. [`Delivery::ack`] and [`Delivery::retry`] consume it: there is no second settle.
///
/// The runner keeps it while bodies run (they see the message only), so that a panic or a timeout cannot lose it.
#[must_use = "a delivery that is dropped is neither done nor given back"]
pub struct Delivery<H> {
    id: u64,
    message: Arc<Message>,
    origin: Origin,
    lease: Lease,
    routed: Option<u16>,
    handle: H,
}

impl<H> Delivery<H> {
    /// For adapters: one arrival, with all that settling it needs.
    pub fn new(message: Message, origin: Origin, lease: Lease, handle: H) -> Self {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { id, message: Arc::new(message), origin, lease, routed: None, handle }
    }

    /// What arrived.
    #[must_use]
    pub const fn message(&self) -> &Arc<Message> {
        &self.message
    }

    /// What only the broker knows about it.
    #[must_use]
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Whether it is still ours.
    #[must_use]
    pub const fn lease(&self) -> &Lease {
        &self.lease
    }

    /// For the adapter's `extend`; opaque to all others.
    pub const fn handle(&self) -> &H {
        &self.handle
    }

    /// A ticket for each consumer that wants the message. It fixes which receipts `ack` asks for: those of everything that it was ever
    /// routed to, so that a second dispatcher's do not stand for the first one's.
    pub(in crate::engine) fn route(&mut self, consumers: u16) -> Vec<Ticket> {
        let from = self.routed.unwrap_or_default();
        let to = from.saturating_add(consumers);
        self.routed = Some(to);
        (from..to).map(|slot| Ticket { delivery: self.id, slot }).collect()
    }

    /// Done, when each consumer that it was routed to has given its receipt for *this* delivery. A delivery that two dispatchers were given
    /// needs the receipts of both; one that failed is not routed again, but given back, and comes again.
    ///
    /// # Errors
    ///
    /// [`Unproven`] when a receipt is missing, is there twice, or belongs to another delivery. Nothing is settled then, and
    /// everything is handed back.
    pub fn ack(self, receipts: Vec<Receipt>) -> Result<Settle<H>, Box<Unproven<H>>> {
        let ours = receipts.iter().map(Receipt::ticket).filter(|ticket| ticket.delivery == self.id);
        let mut slots: Vec<u16> = ours.map(|ticket| ticket.slot).collect();
        slots.sort_unstable();
        let complete = self.routed.is_some_and(|consumers| slots.iter().copied().eq(0..consumers));
        if slots.len() != receipts.len() || !complete {
            return Err(Box::new(Unproven { delivery: self, receipts }));
        }
        let dead = receipts.iter().any(|receipt| receipt.proof() == Proof::DeadLettered);
        let verdict = if dead { Verdict::DeadLettered } else { Verdict::Done };
        Ok(Settle::new(self.handle, self.lease, verdict))
    }

    /// Not now: again, not before `after`. Needs no receipt. Zero gives an unstarted one back.
    pub fn retry(self, after: Duration) -> Settle<H> {
        Settle::new(self.handle, self.lease, Verdict::Retry { after })
    }
}

impl<H> fmt::Debug for Delivery<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").field("message", &self.message).field("origin", &self.origin).finish_non_exhaustive()
    }
}

/// A receipt is missing, doubled, or another delivery's. Nothing was settled.
#[derive(Debug)]
pub struct Unproven<H> {
    /// The delivery, still to be settled.
    pub delivery: Delivery<H>,
    /// What was offered for it.
    pub receipts: Vec<Receipt>,
}

impl<H> fmt::Display for Unproven<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (given, wanted) = (self.receipts.len(), self.delivery.routed.unwrap_or_default());
        write!(f, "the {given} receipts given are not those of the {wanted} consumers of this delivery")
    }
}

impl<H: fmt::Debug> std::error::Error for Unproven<H> {}
