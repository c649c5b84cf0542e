use std::sync::Arc;

use super::super::{
    dead_letters::{DeadLetter, Reason},
    intake::Mismatch,
};
use crate::{
    engine::contract::{delivery::Origin, receipt::Ticket},
    vocabulary::{id::MessageId, identity::NoId, message::Message},
};

/// Where a delivery goes.
#[derive(Debug)]
pub struct Route {
    pub(super) message: Arc<Message>,
    /// Of its payload.
    pub(super) fingerprint: i64,
    pub(super) origin: Origin,
    pub(super) target: Target,
    pub(super) tickets: Vec<Ticket>,
    pub(super) source: Arc<str>,
    pub(super) mismatch: Mismatch,
}

#[derive(Debug)]
pub(super) enum Target {
    NoId(NoId),
    Nobody(MessageId),
    Ignored(MessageId),
    Consumers(MessageId, Vec<Wanted>),
}

/// A consumer that wants the message, or may want it.
#[derive(Debug)]
pub(super) struct Wanted {
    /// Its place among the dispatcher's.
    pub(super) consumer: usize,
    /// It asks for an event type that cannot be read, for this reason.
    pub(super) unreadable: Option<String>,
}

impl Route {
    /// The id of the message, if it has a usable one.
    #[must_use]
    pub const fn id(&self) -> Option<MessageId> {
        match &self.target {
            Target::NoId(_) => None,
            Target::Nobody(id) | Target::Ignored(id) | Target::Consumers(id, _) => Some(*id),
        }
    }

    pub(super) fn letter(&self, consumer: Option<&'static str>, reason: Reason, error: String) -> DeadLetter {
        let (origin, message) = (self.origin.clone(), Arc::clone(&self.message));
        DeadLetter { consumer, id: self.id(), reason, error, source: self.source.as_ref().to_owned(), origin, message }
    }
}
