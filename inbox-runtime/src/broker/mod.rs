//! Brokers: the contract that an adapter fulfils, and the adapters, one folder and one feature each.
//!
//! A [`Delivery`] is settled with [`Receipt`]s, and only the engine makes those: from a committed transaction, a proven duplicate or
//! a stored dead letter. "Ack before commit" cannot be written, here or in an adapter.
//!
//! To write an adapter, implement [`Broker`] and [`Subscription`]; their rules stand there.

#[cfg(feature = "memory")]
mod memory;

pub use crate::engine::contract::{
    broker::{Broker, BrokerError, Subscription, Terms},
    delivery::{Delivery, Origin, Unproven},
    lease::Lease,
    receipt::{Proof, Receipt},
    settle::{Settle, Settled, Verdict, settle},
};
#[cfg(feature = "memory")]
#[cfg_attr(docsrs, doc(cfg(feature = "memory")))]
pub use memory::{Faults, Memory, MemoryCounts, MemoryHandle, MemorySubscription};
