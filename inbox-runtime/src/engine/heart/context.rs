use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    sync::Arc,
};

use crate::vocabulary::{id::MessageId, message::Message};

/// What an extractor sees: the message, its id, the consumer, and the state that the dispatcher was built with.
#[derive(Debug, Clone)]
pub struct MessageContext {
    message: Arc<Message>,
    id: MessageId,
    consumer: &'static str,
    states: States,
}

impl MessageContext {
    pub(crate) const fn new(message: Arc<Message>, id: MessageId, consumer: &'static str, states: States) -> Self {
        Self { message, id, consumer, states }
    }

    /// The message as it came.
    #[must_use]
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// Its id.
    #[must_use]
    pub const fn id(&self) -> MessageId {
        self.id
    }

    /// The name of the consumer that is about to run.
    #[must_use]
    pub const fn consumer(&self) -> &'static str {
        self.consumer
    }

    /// The state of this type, if the dispatcher has one.
    #[must_use]
    pub fn state<T: Clone + Send + Sync + 'static>(&self) -> Option<T> {
        self.states.get()
    }
}

/// Shared values by their type.
#[derive(Clone, Default)]
pub(crate) struct States(Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl States {
    pub(crate) fn insert<T: Clone + Send + Sync + 'static>(&mut self, value: T) {
        Arc::make_mut(&mut self.0).insert(TypeId::of::<T>(), Arc::new(value));
    }

    pub(crate) fn has(&self, id: TypeId) -> bool {
        self.0.contains_key(&id)
    }

    fn get<T: Clone + 'static>(&self) -> Option<T> {
        self.0.get(&TypeId::of::<T>()).and_then(|value| value.downcast_ref::<T>()).cloned()
    }
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("States").field("len", &self.0.len()).finish()
    }
}

/// What a consumer's extractors need from the dispatcher; asked once, at the start.
#[derive(Debug, Default)]
pub struct Requirements {
    pub(crate) states: Vec<(TypeId, &'static str)>,
}

impl Requirements {
    /// The dispatcher must have been given a state of this type.
    pub fn state<T: 'static>(&mut self) {
        self.states.push((TypeId::of::<T>(), std::any::type_name::<T>()));
    }
}
