use std::{any::Any, fmt, time::Duration};

use futures_core::future::BoxFuture;
use sqlx::{Database, Transaction};

use super::{
    context::{MessageContext, Requirements},
    extract::FromMessage,
};
use crate::vocabulary::{config::Isolation, error::Fault, outcome::HandlerResult};

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
    /// Where it is written.
    pub location: Location,
}

/// The shim around a body: arguments from the message, the call, the answer as JSON.
pub type Invoke<DB> = for<'a, 'c> fn(&'a mut Transaction<'c, DB>, &'a MessageContext) -> BoxFuture<'a, Result<Option<String>, Fault>>;

/// A consumer of one database. The attribute makes one, as a static.
pub struct Consumer<DB: Database> {
    pub(crate) facts: Facts,
    pub(crate) invoke: Invoke<DB>,
    pub(crate) requires: fn(&mut Requirements),
}

impl<DB: Database> Consumer<DB> {
    /// For the attribute.
    pub const fn new(facts: Facts, invoke: Invoke<DB>, requires: fn(&mut Requirements)) -> Self {
        Self { facts, invoke, requires }
    }

    /// The name and its aliases, sorted: the order in which every process claims them.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let mut names = Vec::with_capacity(1 + self.facts.aliases.len());
        names.push(self.facts.name);
        names.extend_from_slice(self.facts.aliases);
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl<DB: Database> fmt::Debug for Consumer<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("facts", &self.facts).field("database", &DB::NAME).finish_non_exhaustive()
    }
}

/// A consumer without its database's type: what is collected at link time, and what `charge::registration()` gives for
/// registration by hand.
#[derive(Clone, Copy)]
pub struct Registration {
    pub(crate) facts: &'static Facts,
    pub(crate) database: &'static str,
    consumer: &'static (dyn Any + Send + Sync),
}

inventory::collect!(Registration);

impl Registration {
    /// For the attribute.
    pub const fn new<DB: Database>(consumer: &'static Consumer<DB>) -> Self {
        Self { facts: &consumer.facts, database: DB::NAME, consumer }
    }

    /// The consumer's durable name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.facts.name
    }

    /// Where the consumer is written.
    #[must_use]
    pub const fn location(&self) -> Location {
        self.facts.location
    }

    /// `None` when it belongs to another database.
    pub(crate) fn consumer<DB: Database>(&self) -> Option<&'static Consumer<DB>> {
        self.consumer.downcast_ref()
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("facts", &self.facts).field("database", &self.database).finish_non_exhaustive()
    }
}

/// For the attribute: one argument of a body.
#[doc(hidden)]
pub fn extract<T: FromMessage>(context: &MessageContext) -> Result<T, Fault> {
    T::from_message(context).map_err(Fault::Rejected)
}

/// For the attribute: what one argument needs.
#[doc(hidden)]
pub fn require<T: FromMessage>(requirements: &mut Requirements) {
    T::requires(requirements);
}

/// For the attribute: a body's answer.
#[doc(hidden)]
pub fn conclude<R: HandlerResult>(result: R) -> Result<Option<String>, Fault> {
    let value = result.split().map_err(|e| Fault::Failed(e.into()))?;
    R::encode(&value).map_err(Fault::Reply)
}

/// What the first parameter of a consumer must be, behind its `&mut`.
#[diagnostic::on_unimplemented(
    message = "the first parameter of an idempotent consumer must be `&mut Transaction<'_, DB>`",
    label = "expected `sqlx::Transaction<'_, DB>` behind the `&mut`, found `{Self}`",
    note = "the consumer writes through this transaction, so that its work and its inbox row commit together"
)]
pub trait TransactionParameter {
    /// The database of the transaction.
    type Database: Database;
}

impl<DB: Database> TransactionParameter for Transaction<'_, DB> {
    type Database = DB;
}
