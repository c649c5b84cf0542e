use std::fmt;

use super::call::hint;
use crate::{
    engine::contract::receipt::Receipt,
    vocabulary::{
        error::{Fault, ProcessError},
        id::MessageId,
    },
};

/// What became of a delivery.
#[derive(Debug)]
#[must_use = "the delivery is not settled"]
pub struct Dispatched {
    /// The id of the message, if it has a usable one.
    pub id: Option<MessageId>,
    /// One for each consumer that is done with it.
    pub receipts: Vec<Receipt>,
    /// The consumers that are not. While there is one, the delivery cannot be acked.
    pub failures: Vec<ConsumerFailure>,
}

impl Dispatched {
    /// Nothing has come of it yet.
    pub(super) const fn none(id: Option<MessageId>) -> Self {
        Self { id, receipts: Vec::new(), failures: Vec::new() }
    }

    pub(super) fn fail(&mut self, consumer: &'static str, error: ProcessError<Fault>) {
        if let Some(hint) = hint(&error) {
            tracing::warn!(consumer, id = ?self.id, "{hint}");
        }
        self.failures.push(ConsumerFailure { consumer, error });
    }
}

/// A consumer that is not done with a delivery, and why.
#[derive(Debug)]
pub struct ConsumerFailure {
    /// Its name.
    pub consumer: &'static str,
    /// Why.
    pub error: ProcessError<Fault>,
}

impl fmt::Display for ConsumerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "consumer `{}`: {}", self.consumer, self.error)?;
        hint(&self.error).map_or(Ok(()), |hint| write!(f, " ({hint})"))
    }
}
