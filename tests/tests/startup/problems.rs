//! What one consumer lacks, and that everything is said at once.

use inbox_runtime::{
    __private::Consumer, BuildError, Dispatcher, Inbox, ProcessError, Registration, StartProblem, State, idempotent_consumer,
};
use sqlx::{Postgres, Sqlite, Transaction};

use super::support::*;

#[derive(Clone)]
struct Clock;

#[derive(Clone)]
struct Zone;

#[idempotent_consumer(name = "problems.states", topic = "orders")]
async fn states(_tx: &mut Transaction<'_, Sqlite>, _: State<Clock>, _: State<Zone>, _: State<Clock>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[idempotent_consumer(name = "problems.elsewhere", topic = "orders")]
async fn elsewhere(_tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[tokio::test]
async fn a_state_that_nobody_gave_is_named_with_its_consumer() {
    let found = texts(of(&[states::registration()]).await.state(Clock)).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("consumer `problems.states` takes `State<") && found[0].contains("Zone>`"), "{}", found[0]);
    assert!(found[0].contains(&place(states::registration())), "{}", found[0]);
    of(&[states::registration()]).await.state(Clock).state(Zone).build().await.expect("it has all");
}

#[tokio::test]
async fn a_consumer_of_another_database_is_refused() {
    let found = texts(of(&[elsewhere::registration()]).await).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("consumer `problems.elsewhere` works on PostgreSQL, this dispatcher on SQLite"), "{}", found[0]);
    assert!(found[0].contains("`.only([..])`") && found[0].contains(&place(elsewhere::registration())), "{}", found[0]);
}

/// A binary with consumers of two databases: a dispatcher that is not restricted finds those of the other one.
#[tokio::test]
async fn without_only_the_consumers_of_the_other_database_are_met() {
    let found = problems(Dispatcher::builder(&inbox().await)).await;
    let wrong: Vec<_> = found.iter().filter(|problem| matches!(problem, StartProblem::WrongDatabase { .. })).collect();
    assert!(
        matches!(wrong[..], [StartProblem::WrongDatabase { registration, .. }] if registration.name() == "problems.elsewhere"),
        "{found:?}"
    );
    Dispatcher::builder(&inbox().await).only(["problems.states"]).state(Clock).state(Zone).build().await.expect("restricted");
}

static BAD: Consumer<Sqlite> = by_hand("Bad", &[], 1);
static TWIN: Consumer<Sqlite> = by_hand("bad", &[], 2);

#[tokio::test]
async fn everything_that_is_wrong_is_said_at_once() {
    let registrations = [elsewhere::registration(), states::registration(), Registration::new(&BAD), Registration::new(&TWIN)];
    let builder = of(&registrations).await.expect(["gone"]).bind("nobody", ["orders"]);
    let error = builder.build().await.unwrap_err();
    let BuildError::Start(start) = &error else { panic!("{error}") };
    let count = |wanted: fn(&StartProblem) -> bool| start.problems.iter().filter(|problem| wanted(problem)).count();
    let kinds = [
        count(|problem| matches!(problem, StartProblem::SameName { .. })),
        count(|problem| matches!(problem, StartProblem::BadName { .. })),
        count(|problem| matches!(problem, StartProblem::WrongDatabase { .. })),
        count(|problem| matches!(problem, StartProblem::MissingState { .. })),
        count(|problem| matches!(problem, StartProblem::NotLinked { .. })),
        count(|problem| matches!(problem, StartProblem::BoundToNobody { .. })),
    ];
    assert_eq!(kinds, [1, 1, 1, 2, 1, 1], "{error}");
    assert_eq!(start.problems.len(), 7, "{error}");
    let text = error.to_string();
    assert!(text.starts_with("the consumers cannot start:\n  - "), "{text}");
    assert_eq!(text.lines().count(), 8, "one line each: {text}");
}

#[tokio::test]
async fn an_inbox_that_cannot_be_trusted_is_refused_at_the_start() {
    let bare = inbox_runtime::sqlite::pool_options().connect("sqlite::memory:").await.unwrap();
    let inbox = Inbox::builder(bare).allow_unsafe_durability(true).build().unwrap();
    let refused = Dispatcher::builder(&inbox).without_linked().build().await.unwrap_err();
    assert!(matches!(&refused, BuildError::Inbox(ProcessError::Unsound(_))), "{refused:?}");
    assert!(refused.to_string().contains("there is no table"), "{refused}");
}
