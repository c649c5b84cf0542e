//! A message to every consumer that wants it, each with a transaction and an inbox row of its own.

pub(crate) mod builder;
mod call;
pub(crate) mod outcome;
pub(crate) mod route;
pub(crate) mod workers;

use std::{
    cell::LazyCell,
    collections::BTreeSet,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio_util::sync::CancellationToken;

use self::{
    builder::DispatcherBuilder,
    call::Call,
    outcome::Dispatched,
    route::{Route, Target, Wanted},
    workers::{Jobs, Workers},
};
use super::{
    dead_letters::{DeadLetter, Reason, chain, store, store_escaped},
    intake::{Intake, Mismatch, Unmatched},
};
use crate::{
    engine::{
        contract::{
            database::InboxDatabase,
            delivery::Delivery,
            receipt::{Proof, Receipt, Ticket},
        },
        heart::{
            consumer::{Consumer, Registration},
            context::{MessageContext, States},
            inbox::{AsInbox, Inbox},
            process::{Order, process},
            registry::{StartError, StartProblem},
            task::to_the_end,
        },
    },
    vocabulary::{
        error::{Fault, ProcessError},
        id::MessageId,
        identity::EventTypeFrom,
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

/// A route on its way, and who works on it.
struct Run<DB: InboxDatabase> {
    route: Route,
    workers: Option<Arc<Jobs<DB>>>,
    cancel: CancellationToken,
}

impl<DB: InboxDatabase> Dispatcher<DB> {
    /// A dispatcher of all linked consumers on this pool or inbox; finish with [`DispatcherBuilder::build`].
    pub fn builder(inbox: &impl AsInbox<DB>) -> DispatcherBuilder<DB> {
        DispatcherBuilder::new(inbox.as_inbox())
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

    /// How many messages one transaction may hold at most.
    pub(super) fn largest_group(&self) -> u16 {
        self.inner.consumers.iter().map(|routed| routed.consumer.facts.group).max().unwrap_or(1)
    }

    /// Whether what a subscription brings can be routed: every topic that it names has a consumer, and where a consumer wants one
    /// event type the subscription says where a message carries it; a JSON pointer of it starts with `/`.
    ///
    /// # Errors
    ///
    /// [`StartError`] with every place.
    pub fn check(&self, intake: &Intake) -> Result<(), StartError> {
        let consumers = &self.inner.consumers;
        let mut problems = Vec::new();
        for topic in &intake.topics {
            if !consumers.iter().any(|routed| routed.topics.contains(topic)) {
                let wanted: BTreeSet<&String> = consumers.iter().flat_map(|routed| &routed.topics).collect();
                let wanted = wanted.into_iter().cloned().collect();
                problems.push(StartProblem::TopicWithoutConsumer { topic: topic.clone(), wanted });
            }
        }
        let brings = |routed: &&Routed<DB>| intake.topics.is_empty() || routed.topics.iter().any(|t| intake.topics.contains(t));
        for routed in consumers.iter().filter(brings) {
            if routed.consumer.facts.event.is_some() && !routed.topics.is_empty() && intake.event_type.is_none() {
                let registration = Registration::new(routed.consumer);
                problems.push(StartProblem::NoEventType { registration, subscription: intake.name.as_ref().to_owned() });
            }
        }
        let pointers = [intake.id.pointer(), intake.event_type.as_ref().and_then(EventTypeFrom::pointer)];
        for pointer in pointers.into_iter().flatten().filter(|pointer| !pointer.starts_with('/')) {
            problems.push(StartProblem::BadPointer { subscription: intake.name.as_ref().to_owned(), pointer: pointer.to_owned() });
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
        Route {
            fingerprint: message.fingerprint(),
            message,
            origin,
            target,
            tickets,
            source: Arc::clone(&intake.name),
            mismatch: intake.mismatch,
        }
    }

    fn wanted(&self, message: &Message, intake: &Intake) -> Vec<Wanted> {
        let read = || intake.event_type.as_ref().map_or(Ok(None), |from| from.read(message));
        let event = LazyCell::new(read);
        let wants = |(consumer, routed): (usize, &Routed<DB>)| {
            if !routed.topics.contains(&message.topic) {
                return None;
            }
            let Some(wanted) = routed.consumer.facts.event else { return Some(Wanted { consumer, unreadable: None }) };
            match &*event {
                Ok(event) => (event.as_deref() == Some(wanted)).then_some(Wanted { consumer, unreadable: None }),
                Err(unreadable) => Some(Wanted { consumer, unreadable: Some(unreadable.to_string()) }),
            }
        };
        self.inner.consumers.iter().enumerate().filter_map(wants).collect()
    }

    /// Runs the consumers of a route, one after the other, by name. If one fails the others stay applied, and the next delivery
    /// of the message runs only the one that failed.
    ///
    /// Cancel safe: dropping it cuts the running body short (which rolls back) and gives no receipt. What that body has done wrong is still dealt
    /// with: a consumer that ended its transaction stops, and its message becomes a dead letter.
    pub async fn run(&self, route: Route) -> Dispatched {
        let (id, cancel) = (route.id(), CancellationToken::new());
        let _cut = cancel.clone().drop_guard();
        // Boxed: what is handed on from here to its task is moved more than once.
        let done = to_the_end(Box::pin(self.run_by(route, None, cancel))).await;
        done.unwrap_or_else(|_| {
            // The runtime shuts down.
            let mut done = Dispatched::none(id);
            done.fail("dispatcher", ProcessError::Cancelled);
            done
        })
    }

    /// The same by workers, where there are some. To be polled to its end: `cancel` cuts the bodies short.
    pub(super) fn run_by(
        &self,
        route: Route,
        workers: Option<&Workers<DB>>,
        cancel: CancellationToken,
    ) -> impl Future<Output = Dispatched> + Send + use<DB> {
        let (dispatcher, run) = (self.clone(), Run { route, workers: workers.map(Workers::jobs), cancel });
        async move { dispatcher.run_all(&run).await }
    }

    async fn run_all(&self, run: &Run<DB>) -> Dispatched {
        let route = &run.route;
        let mut done = Dispatched::none(route.id());
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
                for (wanted, ticket) in consumers.iter().zip(&route.tickets) {
                    let Some(routed) = self.inner.consumers.get(wanted.consumer) else { continue };
                    if let Some(unreadable) = &wanted.unreadable {
                        let letter = route.letter(Some(routed.consumer.facts.name), Reason::NoEventType, unreadable.clone());
                        self.set_aside(letter, Some(ticket), &mut done).await;
                    } else {
                        self.run_one(routed, *id, *ticket, run, &mut done).await;
                    }
                }
            }
        }
        done
    }

    async fn run_one(&self, routed: &Routed<DB>, id: MessageId, ticket: Ticket, run: &Run<DB>, done: &mut Dispatched) {
        let route = &run.route;
        let (consumer, facts) = (routed.consumer, &routed.consumer.facts);
        if routed.halted.load(Ordering::Relaxed) {
            done.fail(facts.name, ProcessError::Halted);
            return;
        }
        let order = Order {
            name: facts.name,
            names: consumer.facts.names(),
            isolation: facts.isolation,
            timeout: facts.timeout,
            group: facts.group,
            linger: facts.linger,
            id,
            fingerprint: Some(route.fingerprint),
        };
        let context = MessageContext::new(Arc::clone(&route.message), id, facts.name, self.inner.states.clone());
        let result = process(&self.inner.inbox, run.workers.as_deref(), order.clone(), Call { consumer, context }, &run.cancel).await;
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
                let letter = route.letter(Some(facts.name), reason, told(&error));
                if reason == Reason::TransactionEscaped {
                    // For a person to look at: no receipt comes of it.
                    routed.halted.store(true, Ordering::Relaxed);
                    tracing::error!(consumer = facts.name, %id, location = %facts.location, "stopped: {error}");
                    if let Err(error) = Box::pin(store_escaped(&self.inner.inbox, letter, order)).await {
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
        // Boxed, as what is rare: else every message carries the room for it about.
        match Box::pin(store(&self.inner.inbox, letter, *ticket)).await {
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

/// A body that never ran has not failed.
fn told(error: &ProcessError<Fault>) -> String {
    match error {
        ProcessError::Handler(rejected @ Fault::Rejected(_)) => chain(rejected),
        error => chain(error),
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
