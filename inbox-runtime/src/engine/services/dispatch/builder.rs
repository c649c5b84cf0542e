use std::{
    fmt,
    sync::{Arc, atomic::AtomicBool},
};

use super::{Dispatcher, Inner, Routed};
use crate::{
    engine::{
        contract::database::InboxDatabase,
        heart::{
            consumer::{Consumer, Registration},
            context::States,
            inbox::Inbox,
            registry::{Selection, StartError},
        },
    },
    vocabulary::error::ProcessError,
};

/// Settings of a [`Dispatcher`].
#[must_use]
pub struct DispatcherBuilder<DB: InboxDatabase> {
    inbox: Inbox<DB>,
    selection: Selection,
    states: States,
    bound: Vec<(String, Vec<String>)>,
}

impl<DB: InboxDatabase> DispatcherBuilder<DB> {
    pub(super) fn new(inbox: Inbox<DB>) -> Self {
        Self { inbox, selection: Selection::default(), states: States::default(), bound: Vec::new() }
    }

    /// A shared value for consumers that take `State<T>`. One for each type; the last one given holds.
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(value);
        self
    }

    /// Names of consumers that must be there. A crate that nobody names is left out by the linker, and its consumers with it: this turns
    /// that into an error at the start.
    pub fn expect<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.selection.expected.extend(names.into_iter().map(Into::into));
        self
    }

    /// Restricts it to these consumers, all of which must be there. The registry is one for the whole process: tests, and programs with
    /// two databases, need this.
    pub fn only<T: Into<String>>(mut self, names: impl IntoIterator<Item = T>) -> Self {
        self.selection.only.get_or_insert_default().extend(names.into_iter().map(Into::into));
        self
    }

    /// Adds a consumer by hand, as in `.register(charge::registration())`. One that is linked as well counts once.
    pub fn register(mut self, registration: Registration) -> Self {
        self.selection.by_hand.push(registration);
        self
    }

    /// Leaves out what was collected at link time: only consumers that are registered by hand count.
    pub const fn without_linked(mut self) -> Self {
        self.selection.without_linked = true;
        self
    }

    /// Binds topics to a consumer, instead of those in its attribute.
    pub fn bind<T: Into<String>>(mut self, consumer: impl Into<String>, topics: impl IntoIterator<Item = T>) -> Self {
        self.bound.push((consumer.into(), topics.into_iter().map(Into::into).collect()));
        self
    }

    /// Checks everything and gives the dispatcher. It logs the consumers that it found.
    ///
    /// # Errors
    ///
    /// [`BuildError::Start`] with every problem of the consumers and its place in the source; [`BuildError::Inbox`] when the inbox cannot be
    /// trusted or asked.
    pub async fn build(self) -> Result<Dispatcher<DB>, BuildError> {
        let start = |problems| BuildError::Start(StartError { problems });
        let bound = self.bound.iter().map(|(name, _)| name.as_str());
        let consumers = self.selection.collect::<DB>(&self.states, bound).map_err(start)?;
        self.inbox.verify().await.map_err(BuildError::Inbox)?;
        let routed: Vec<Routed<DB>> = consumers.into_iter().map(|consumer| self.routed(consumer)).collect();
        for Routed { consumer, topics, .. } in &routed {
            let facts = &consumer.facts;
            tracing::info!(consumer = facts.name, ?topics, event = facts.event, location = %facts.location, "consumer");
        }
        Ok(Dispatcher { inner: Arc::new(Inner { inbox: self.inbox, consumers: routed, states: self.states }) })
    }

    fn routed(&self, consumer: &'static Consumer<DB>) -> Routed<DB> {
        let bound = self.bound.iter().filter(|(name, _)| name == consumer.facts.name);
        let bound: Vec<String> = bound.flat_map(|(_, topics)| topics.clone()).collect();
        let declared = || consumer.facts.topics.iter().map(|topic| (*topic).to_owned()).collect();
        let topics = if bound.is_empty() { declared() } else { bound };
        Routed { consumer, topics, halted: AtomicBool::new(false) }
    }
}

impl<DB: InboxDatabase> fmt::Debug for DispatcherBuilder<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DispatcherBuilder").field("selection", &self.selection).finish_non_exhaustive()
    }
}

/// Why there is no dispatcher.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The consumers contradict each other or what was asked for.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The inbox cannot be trusted, or not be asked.
    #[error("{0}")]
    Inbox(ProcessError<std::convert::Infallible>),
}
