//! A message to every consumer that wants it, each with a transaction and an inbox row of its own.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_core::future::BoxFuture;
use sqlx::Transaction;

use super::{
    dead_letters::{DeadLetter, Reason, chain, store},
    intake::{Intake, Mismatch, Unmatched},
};
use crate::{
    engine::{
        contract::{
            database::InboxDatabase,
            delivery::{Delivery, Origin},
            receipt::{Proof, Receipt, Ticket},
        },
        heart::{
            consumer::{Consumer, Registration},
            context::{MessageContext, States},
            inbox::{AsInbox, Inbox},
            process::{Order, Work, process},
            registry::{Selection, StartError, StartProblem},
        },
    },
    vocabulary::{
        error::{Fault, ProcessError},
        id::MessageId,
        identity::NoId,
        message::Message,
        outcome::Outcome,
    },
};

/// All consumers of one database, ready to be handed messages. Cheap to clone.
///
/// ```no_run
/// # #[cfg(feature = "postgres")]
/// # async fn example(pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// use inbox_runtime::Dispatcher;
///
/// let dispatcher = Dispatcher::builder(&pool).expect(["billing", "inventory"]).build().await?;
/// # Ok(())
/// # }
/// ```
pub struct Dispatcher<DB: InboxDatabase> {
    inner: Arc<Inner<DB>>,
}

struct Inner<DB: InboxDatabase> {
    inbox: Inbox<DB>,
    consumers: Vec<Routed<DB>>,
    states: States,
}

struct Routed<DB: InboxDatabase> {
    consumer: &'static Consumer<DB>,
    topics: Vec<String>,
    /// Set when it escaped its transaction: its code is wrong, and it takes no more.
    halted: AtomicBool,
}

impl<DB: InboxDatabase> Dispatcher<DB> {
    /// A dispatcher of all linked consumers on this pool or inbox; finish with [`DispatcherBuilder::build`].
    pub fn builder(inbox: &impl AsInbox<DB>) -> DispatcherBuilder<DB> {
        DispatcherBuilder { inbox: inbox.as_inbox(), selection: Selection::default(), states: States::default(), bound: Vec::new() }
    }

    /// The names of its consumers, sorted.
    pub fn consumers(&self) -> impl Iterator<Item = &'static str> {
        self.inner.consumers.iter().map(|routed| routed.consumer.facts.name)
    }

    /// The inbox that it works on.
    #[must_use]
    pub fn inbox(&self) -> &Inbox<DB> {
        &self.inner.inbox
    }

    /// Whether what a subscription brings can be routed: every topic that it names has a consumer, and where a consumer wants one
    /// event type the subscription says where a message carries it.
    ///
    /// # Errors
    ///
    /// [`StartError`] with every place.
    pub fn check(&self, intake: &Intake) -> Result<(), StartError> {
        let consumers = &self.inner.consumers;
        let mut problems = Vec::new();
        for topic in &intake.topics {
            if !consumers.iter().any(|routed| routed.topics.contains(topic)) {
                let wanted: BTreeMap<&String, ()> = consumers.iter().flat_map(|c| &c.topics).map(|topic| (topic, ())).collect();
                let wanted = wanted.into_keys().cloned().collect();
                problems.push(StartProblem::TopicWithoutConsumer { topic: topic.clone(), wanted });
            }
        }
        let brings = |routed: &&Routed<DB>| intake.topics.is_empty() || routed.topics.iter().any(|t| intake.topics.contains(t));
        for routed in consumers.iter().filter(brings) {
            if routed.consumer.facts.event.is_some() && !routed.topics.is_empty() && intake.event_type.is_none() {
                let registration = Registration::new(routed.consumer);
                problems.push(StartProblem::NoEventType { registration, subscription: intake.name.clone() });
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(StartError { problems }) }
    }

    /// Routes a delivery and runs its consumers: [`Dispatcher::route`] and [`Dispatcher::run`] in one.
    pub async fn dispatch<H>(&self, delivery: &mut Delivery<H>, intake: &Intake) -> Dispatched {
        let route = self.route(delivery, intake);
        self.run(route).await
    }

    /// Finds the id of a delivery and the consumers that want it. No I/O.
    pub fn route<H>(&self, delivery: &mut Delivery<H>, intake: &Intake) -> Route {
        let message = Arc::clone(delivery.message());
        let origin = delivery.origin().clone();
        let (target, slots) = match intake.id.read(&message) {
            Err(no_id) => (Target::NoId(no_id), 1),
            Ok(id) => {
                let wanted = self.wanted(&message, intake);
                match (wanted.is_empty(), intake.unmatched) {
                    (true, Unmatched::DeadLetter) => (Target::Nobody(id), 1),
                    (true, Unmatched::Ack) => (Target::Ignored(id), 0),
                    (false, _) => {
                        let slots = wanted.len();
                        (Target::Consumers(id, wanted), slots)
                    }
                }
            }
        };
        // A process has far fewer consumers than that.
        let tickets = delivery.route(u16::try_from(slots).unwrap_or(u16::MAX));
        Route { message, origin, target, tickets, source: intake.name.clone(), mismatch: intake.mismatch }
    }

    fn wanted(&self, message: &Message, intake: &Intake) -> Vec<usize> {
        let mut event: Option<Option<String>> = None;
        let mut wants_event = |wanted: &str| {
            let read = || intake.event_type.as_ref().and_then(|from| from.read(message));
            event.get_or_insert_with(read).as_deref() == Some(wanted)
        };
        let mut wants =
            |routed: &Routed<DB>| routed.topics.contains(&message.topic) && routed.consumer.facts.event.is_none_or(&mut wants_event);
        let consumers = self.inner.consumers.iter().enumerate();
        consumers.filter(|(_, routed)| wants(routed)).map(|(i, _)| i).collect()
    }

    /// Runs the consumers of a route, one after the other, by name. If one fails the others stay applied, and the next delivery
    /// of the message runs only the one that failed.
    ///
    /// Cancel safe: dropping it cuts the running body short (which rolls back) and gives no receipt.
    pub async fn run(&self, route: Route) -> Dispatched {
        let mut done = Dispatched { id: route.id(), receipts: Vec::new(), failures: Vec::new() };
        match &route.target {
            Target::NoId(no_id) => {
                let letter = route.letter(None, Reason::NoId, chain(no_id));
                self.set_aside(letter, route.tickets.first(), &mut done).await;
            }
            Target::Nobody(_) => {
                let error = format!("no consumer wants this message of topic `{}`", route.message.topic);
                let letter = route.letter(None, Reason::Unmatched, error);
                self.set_aside(letter, route.tickets.first(), &mut done).await;
            }
            Target::Ignored(_) => {}
            Target::Consumers(id, consumers) => {
                for (consumer, ticket) in consumers.iter().zip(&route.tickets) {
                    if let Some(routed) = self.inner.consumers.get(*consumer) {
                        self.run_one(routed, *id, &route, *ticket, &mut done).await;
                    }
                }
            }
        }
        done
    }

    async fn run_one(&self, routed: &Routed<DB>, id: MessageId, route: &Route, ticket: Ticket, done: &mut Dispatched) {
        let (consumer, facts) = (routed.consumer, &routed.consumer.facts);
        if routed.halted.load(Ordering::Relaxed) {
            done.fail(facts.name, ProcessError::Halted);
            return;
        }
        let order = Order {
            name: facts.name,
            names: consumer.names(),
            isolation: facts.isolation,
            timeout: facts.timeout,
            id,
            fingerprint: Some(route.message.fingerprint()),
        };
        let context = MessageContext::new(Arc::clone(&route.message), id, facts.name, self.inner.states.clone());
        let result = process(&self.inner.inbox, order, Call { consumer, context }).await;
        match result {
            Ok(processed) => {
                let applied = processed.outcome.is_applied();
                tracing::debug!(consumer = facts.name, %id, topic = %route.message.topic, applied, "processed");
                if processed.mismatch {
                    tracing::warn!(consumer = facts.name, %id, "a duplicate has another payload than the message that was applied");
                    if route.mismatch == Mismatch::DeadLetter {
                        let error = "a message with this id and another payload was applied before".to_owned();
                        let letter = route.letter(Some(facts.name), Reason::PayloadMismatch, error);
                        self.set_aside(letter, Some(&ticket), done).await;
                        return;
                    }
                }
                let proof = if matches!(processed.outcome, Outcome::Applied(_)) { Proof::Applied } else { Proof::Duplicate };
                done.receipts.push(Receipt::new(ticket, proof));
            }
            Err(error) => {
                let Some(reason) = permanent(&error) else {
                    done.fail(facts.name, error);
                    return;
                };
                let letter = route.letter(Some(facts.name), reason, chain(&error));
                if reason == Reason::TransactionEscaped {
                    // For a person to look at: no receipt comes of it.
                    routed.halted.store(true, Ordering::Relaxed);
                    tracing::error!(consumer = facts.name, %id, location = %facts.location, "stopped: {error}");
                    if let Err(error) = store(&self.inner.inbox, letter, ticket).await {
                        tracing::error!(consumer = facts.name, %id, %error, "the dead letter of an escaped message could not be stored");
                    }
                    done.fail(facts.name, error);
                } else {
                    self.set_aside(letter, Some(&ticket), done).await;
                }
            }
        }
    }

    async fn set_aside(&self, letter: DeadLetter, ticket: Option<&Ticket>, done: &mut Dispatched) {
        let Some(ticket) = ticket else { return };
        let consumer = letter.consumer.unwrap_or("dead letters");
        match store(&self.inner.inbox, letter, *ticket).await {
            Ok(receipt) => done.receipts.push(receipt),
            Err(error) => done.fail(consumer, ProcessError::Database(error)),
        }
    }
}

impl<DB: InboxDatabase> Clone for Dispatcher<DB> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<DB: InboxDatabase> fmt::Debug for Dispatcher<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let consumers: Vec<&str> = self.consumers().collect();
        f.debug_struct("Dispatcher").field("database", &DB::NAME).field("consumers", &consumers).finish_non_exhaustive()
    }
}

/// Why it makes no sense to try again; `None`: it does.
const fn permanent(error: &ProcessError<Fault>) -> Option<Reason> {
    match error {
        ProcessError::Handler(Fault::Rejected(_)) => Some(Reason::Rejected),
        ProcessError::Handler(Fault::Reply(_)) | ProcessError::Reply(_) => Some(Reason::Reply),
        ProcessError::TransactionEscaped => Some(Reason::TransactionEscaped),
        _ => None,
    }
}

/// Where a delivery goes.
#[derive(Debug)]
pub struct Route {
    message: Arc<Message>,
    origin: Origin,
    target: Target,
    tickets: Vec<Ticket>,
    source: String,
    mismatch: Mismatch,
}

#[derive(Debug)]
enum Target {
    NoId(NoId),
    Nobody(MessageId),
    Ignored(MessageId),
    Consumers(MessageId, Vec<usize>),
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

    fn letter(&self, consumer: Option<&'static str>, reason: Reason, error: String) -> DeadLetter {
        let (origin, message) = (self.origin.clone(), Arc::clone(&self.message));
        DeadLetter { consumer, id: self.id(), reason, error, source: self.source.clone(), origin, message }
    }
}

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
    fn fail(&mut self, consumer: &'static str, error: ProcessError<Fault>) {
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

/// What a known cause asks for, where its own text does not say it.
fn hint(error: &ProcessError<Fault>) -> Option<&'static str> {
    match error {
        ProcessError::Handler(Fault::Failed(e)) if matches!(sqlx_error(e.as_ref()), Some(sqlx::Error::PoolTimedOut)) => {
            Some("the body waited for a second connection of the pool while it holds one: write through its transaction instead")
        }
        _ => None,
    }
}

fn sqlx_error<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e sqlx::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<sqlx::Error>() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// A registered body and its message: it can run as often as it takes.
struct Call<DB: InboxDatabase> {
    consumer: &'static Consumer<DB>,
    context: MessageContext,
}

impl<DB: InboxDatabase> Work<DB> for Call<DB> {
    /// The reply as JSON, if the consumer replies.
    type Value = Option<String>;
    type Error = Fault;

    fn ready(&self) -> bool {
        true
    }

    fn run<'a, 'c>(&'a mut self, tx: &'a mut Transaction<'c, DB>) -> BoxFuture<'a, Result<Option<String>, Fault>> {
        (self.consumer.invoke)(tx, &self.context)
    }

    fn reply(value: &Option<String>) -> Result<Option<String>, serde_json::Error> {
        Ok(value.clone())
    }

    fn recorded(reply: Option<&str>) -> Result<Option<String>, serde_json::Error> {
        Ok(reply.map(str::to_owned))
    }

    fn sql_error(error: &Fault) -> Option<&sqlx::Error> {
        match error {
            Fault::Failed(e) => sqlx_error(e.as_ref()),
            Fault::Rejected(_) | Fault::Reply(_) => None,
        }
    }
}

/// Settings of a [`Dispatcher`].
#[must_use]
pub struct DispatcherBuilder<DB: InboxDatabase> {
    inbox: Inbox<DB>,
    selection: Selection,
    states: States,
    bound: Vec<(String, Vec<String>)>,
}

impl<DB: InboxDatabase> DispatcherBuilder<DB> {
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
        let consumers = self.selection.collect::<DB>(&self.states).map_err(start)?;
        let linked: Vec<&'static str> = consumers.iter().map(|consumer| consumer.facts.name).collect();
        let nobody = self.bound.iter().filter(|(name, _)| !linked.contains(&name.as_str()));
        let nobody = nobody.map(|(name, _)| StartProblem::BoundToNobody { name: name.clone(), linked: linked.clone() });
        let problems: Vec<StartProblem> = nobody.collect();
        if !problems.is_empty() {
            return Err(start(problems));
        }
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
