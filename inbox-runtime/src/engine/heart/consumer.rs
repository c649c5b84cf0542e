use std::{any::Any, borrow::Cow, fmt, time::Duration};

use futures_core::future::BoxFuture;
use sqlx::{Database, Transaction};

use super::{
    context::{MessageContext, Requirements},
    extract::FromMessage,
};
use crate::vocabulary::{
    config::Isolation,
    error::{BatchFault, Fault},
    outcome::{BatchProof, BatchResult, HandlerResult, Proof},
};

/// Where a consumer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// The source file, as the compiler names it.
    pub file: &'static str,
    /// Its line.
    pub line: u32,
    /// The module.
    pub module: &'static str,
}

impl Location {
    /// For the attribute.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(file: &'static str, line: u32, module: &'static str) -> Self {
        Self { file, line, module }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} ({})", self.file, self.line, self.module)
    }
}

/// What the attribute says about a consumer.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// Its durable name.
    pub name: &'static str,
    /// Names that it had before.
    pub aliases: &'static [&'static str],
    /// The topics that it wants.
    pub topics: &'static [&'static str],
    /// The event type that it wants; `None`: all.
    pub event: Option<&'static str>,
    /// The isolation level of its transactions.
    pub isolation: Option<Isolation>,
    /// How long its body may run.
    pub timeout: Option<Duration>,
    /// How many messages may share a transaction.
    pub group: u16,
    /// How long a message may wait for others to share it with.
    pub linger: Duration,
    /// Where it is written.
    pub location: Location,
}

impl Facts {
    /// For the attribute: a consumer of which nothing but this is said.
    pub const fn new(name: &'static str, location: Location) -> Self {
        Self { name, aliases: &[], topics: &[], event: None, isolation: None, timeout: None, group: 1, linger: Duration::ZERO, location }
    }

    /// The name and its aliases, sorted: the order in which every process claims them.
    pub(crate) fn names(&'static self) -> Cow<'static, [&'static str]> {
        if self.aliases.is_empty() {
            return Cow::Borrowed(std::slice::from_ref(&self.name));
        }
        let mut names = Vec::with_capacity(1 + self.aliases.len());
        names.push(self.name);
        names.extend_from_slice(self.aliases);
        names.sort_unstable();
        names.dedup();
        Cow::Owned(names)
    }
}

/// The shim around a body: arguments from the message, the call, the answer as JSON.
pub type Invoke<DB> = for<'a, 'c> fn(&'a mut Transaction<'c, DB>, &'a MessageContext) -> BoxFuture<'a, Result<Option<String>, Fault>>;

/// The same around a body that takes many messages, with an answer for each.
pub type InvokeBatch<DB> =
    for<'a, 'c> fn(&'a mut Transaction<'c, DB>, &'a [&'a MessageContext]) -> BoxFuture<'a, Result<Vec<Option<String>>, BatchFault<Fault>>>;

pub(crate) enum Shim<DB: Database> {
    One(Invoke<DB>),
    Batch(InvokeBatch<DB>),
}

/// A consumer of one database. The attribute makes one, as a static.
pub struct Consumer<DB: Database> {
    pub(crate) facts: Facts,
    pub(crate) shim: Shim<DB>,
    pub(crate) requires: fn(&mut Requirements),
}

impl<DB: Database> Consumer<DB> {
    /// For the attribute.
    pub const fn new(facts: Facts, invoke: Invoke<DB>, requires: fn(&mut Requirements)) -> Self {
        Self { facts, shim: Shim::One(invoke), requires }
    }

    /// For the attribute: one whose body takes many messages.
    pub const fn batch(facts: Facts, invoke: InvokeBatch<DB>, requires: fn(&mut Requirements)) -> Self {
        Self { facts, shim: Shim::Batch(invoke), requires }
    }
}

impl<DB: Database> fmt::Debug for Consumer<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("facts", &self.facts).field("database", &DB::NAME).finish_non_exhaustive()
    }
}

/// A consumer without its database's type.
#[doc(hidden)]
pub trait AnyConsumer: Any + Send + Sync {
    fn facts(&self) -> &Facts;
    fn database(&self) -> &'static str;
}

impl<DB: Database> AnyConsumer for Consumer<DB> {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn database(&self) -> &'static str {
        DB::NAME
    }
}

/// A consumer of some database: what is collected at link time, and what `charge::registration()` gives for registration by hand.
///
/// The attribute writes the field itself: so the compiler infers the database, and a wrong transaction is one error.
#[derive(Clone, Copy)]
pub struct Registration(#[doc(hidden)] pub &'static dyn AnyConsumer);

inventory::collect!(Registration);

impl Registration {
    /// Of a consumer that is no function with the attribute.
    #[doc(hidden)]
    #[must_use]
    pub const fn new<DB: Database>(consumer: &'static Consumer<DB>) -> Self {
        Self(consumer)
    }

    /// The consumer's durable name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.facts().name
    }

    /// Where the consumer is written.
    #[must_use]
    pub fn location(&self) -> Location {
        self.facts().location
    }

    pub(crate) fn facts(&self) -> &'static Facts {
        self.0.facts()
    }

    pub(crate) fn database(&self) -> &'static str {
        self.0.database()
    }

    /// `None` when it belongs to another database.
    pub(crate) fn consumer<DB: Database>(&self) -> Option<&'static Consumer<DB>> {
        (self.0 as &dyn Any).downcast_ref()
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("facts", self.facts()).field("database", &self.database()).finish_non_exhaustive()
    }
}

/// For the attribute: one argument of a body.
#[doc(hidden)]
pub fn extract<T: FromMessage>(context: &MessageContext) -> Result<T, Fault> {
    T::from_message(context).map_err(Fault::Rejected)
}

/// For the attribute: one argument of a body that takes many messages. What cannot be taken is told of all of them.
#[doc(hidden)]
pub fn extract_each<T: FromMessage>(contexts: &[&MessageContext]) -> Result<Vec<T>, BatchFault<Fault>> {
    let (mut values, mut faults) = (Vec::with_capacity(contexts.len()), Vec::new());
    for (place, context) in contexts.iter().enumerate() {
        match extract(context) {
            Ok(value) => values.push(value),
            Err(fault) => faults.push((place, fault)),
        }
    }
    let mut faults = faults.into_iter();
    match faults.next() {
        None => Ok(values),
        Some(first) => Err(BatchFault::These(first, faults.collect())),
    }
}

/// For the attribute: one that is not of a message.
#[doc(hidden)]
pub fn extract_shared<T: FromMessage>(contexts: &[&MessageContext]) -> Result<T, BatchFault<Fault>> {
    let first = contexts.first().expect("a batch has a message");
    extract(first).map_err(BatchFault::Any)
}

/// For the attribute: what one argument needs.
#[doc(hidden)]
pub fn require<T: FromMessage>(requirements: &mut Requirements) {
    T::requires(requirements);
}

/// For the attribute: a body's answer.
#[doc(hidden)]
pub fn conclude<P: Proof>(_proof: P, result: P::Result) -> Result<Option<String>, Fault> {
    let value = result.split().map_err(|e| Fault::Failed(e.into()))?;
    <P::Result as HandlerResult>::encode(&value).map_err(Fault::Reply)
}

/// For the attribute: the answers of a body that takes many messages.
#[doc(hidden)]
pub fn conclude_each<P: BatchProof>(
    _proof: P,
    result: P::Result,
    contexts: &[&MessageContext],
) -> Result<Vec<Option<String>>, BatchFault<Fault>> {
    result.each(contexts.len()).map_err(BatchFault::Any)
}

/// What the first parameter of a consumer must be, behind its `&mut`.
#[diagnostic::on_unimplemented(
    message = "the first parameter of an idempotent consumer must be `&mut Transaction<'_, DB>`",
    label = "expected `sqlx::Transaction<'_, DB>` behind the `&mut`, found `{Self}`",
    note = "the consumer writes through this transaction, so that its work and its inbox row commit together"
)]
pub trait TransactionParameter<'c, DB: Database> {
    /// The transaction, as the type that the consumer names.
    fn at<'a>(tx: &'a mut Transaction<'c, DB>) -> &'a mut Self;
}

impl<'c, DB: Database> TransactionParameter<'c, DB> for Transaction<'c, DB> {
    fn at<'a>(tx: &'a mut Transaction<'c, DB>) -> &'a mut Self {
        tx
    }
}
