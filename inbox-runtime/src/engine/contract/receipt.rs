/// Lets one consumer answer for one delivery. It proves nothing by itself, so a later attempt may use it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) struct Ticket {
    pub(in crate::engine) delivery: u64,
    pub(in crate::engine) slot: u16,
}

/// Why a consumer is done with a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Proof {
    /// The transaction with its effect is committed.
    Applied,
    /// The inbox already held its row, and that row is durable.
    Duplicate,
    /// The message stands in the dead letter table, committed.
    DeadLettered,
}

/// That one consumer is done with one delivery, in the database. Only the engine makes one, and it is neither `Clone` nor
/// `Default`: an ack before the commit cannot be written.
///
/// ```compile_fail
/// // A receipt cannot be made.
/// let receipt = inbox_runtime::broker::Receipt { ticket: todo!(), proof: inbox_runtime::broker::Proof::Applied };
/// ```
#[derive(Debug)]
#[must_use = "the delivery is not settled"]
pub struct Receipt {
    ticket: Ticket,
    proof: Proof,
}

impl Receipt {
    /// For its three makers: after an answered commit, at an empty claim on a durable row, after the commit of a dead letter.
    pub(in crate::engine) const fn new(ticket: Ticket, proof: Proof) -> Self {
        Self { ticket, proof }
    }

    pub(in crate::engine) const fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Why the consumer is done.
    #[must_use]
    pub const fn proof(&self) -> Proof {
        self.proof
    }
}
