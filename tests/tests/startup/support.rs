//! Consumers that do nothing, one for each mistake, and what the start says of them.

use futures_util::future::BoxFuture;
use inbox_runtime::{
    __private::{Consumer, Facts, Requirements},
    BuildError, Dispatcher, DispatcherBuilder, Fault, Inbox, Location, MessageContext, Registration, StartProblem, sqlite,
};
use sqlx::{Sqlite, SqlitePool, Transaction};

/// An inbox in memory.
pub(super) async fn pool() -> SqlitePool {
    let pool = sqlite::pool_options().connect("sqlite::memory:").await.expect("a database in memory");
    Inbox::new(&pool).migrate().await.expect("migrated");
    pool
}

/// The same, already trusted: a database in memory is not durable.
pub(super) async fn inbox() -> Inbox<Sqlite> {
    let inbox = Inbox::builder(pool().await).allow_unsafe_durability(true).build().expect("an inbox");
    inbox.verify().await.expect("sound");
    inbox
}

/// A builder that knows only these.
pub(super) async fn of(registrations: &[Registration]) -> DispatcherBuilder<Sqlite> {
    let builder = Dispatcher::builder(&inbox().await).without_linked();
    registrations.iter().fold(builder, |builder, registration| builder.register(*registration))
}

pub(super) async fn problems(builder: DispatcherBuilder<Sqlite>) -> Vec<StartProblem> {
    match builder.build().await {
        Err(BuildError::Start(error)) => error.problems,
        Err(other) => panic!("{other}"),
        Ok(dispatcher) => panic!("it starts: {dispatcher:?}"),
    }
}

/// The texts of what keeps it from starting; each must name these places.
pub(super) async fn texts(builder: DispatcherBuilder<Sqlite>) -> Vec<String> {
    problems(builder).await.iter().map(ToString::to_string).collect()
}

fn nothing<'a>(_: &'a mut Transaction<'_, Sqlite>, _: &'a MessageContext) -> BoxFuture<'a, Result<Option<String>, Fault>> {
    Box::pin(async { Ok(None) })
}

fn needs_nothing(_: &mut Requirements) {}

/// A consumer as no attribute writes it.
pub(super) const fn by_hand(name: &'static str, aliases: &'static [&'static str], line: u32) -> Consumer<Sqlite> {
    let location = Location { file: "src/by_hand.rs", line, module: "by_hand" };
    let facts = Facts { aliases, topics: &["orders"], ..Facts::new(name, location) };
    Consumer::new(facts, nothing, needs_nothing)
}

/// `file:line` of a registration, as a message names it.
pub(super) fn place(registration: Registration) -> String {
    let Location { file, line, .. } = registration.location();
    format!("{file}:{line} ")
}
