//! Whether the consumers fit a subscription.

use inbox_runtime::{
    EventTypeFrom, IdFrom, Intake, Registration, RunError, Runner, StartError, StartProblem, broker::Memory, idempotent_consumer,
};
use sqlx::{Sqlite, Transaction};

use super::support::*;

#[idempotent_consumer(name = "topics.orders", topic = "orders")]
async fn orders(_tx: &mut Transaction<'_, Sqlite>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[idempotent_consumer(name = "topics.paid", topic = "payments", event = "OrderPaid")]
async fn paid(_tx: &mut Transaction<'_, Sqlite>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[idempotent_consumer(name = "topics.none")]
async fn none(_tx: &mut Transaction<'_, Sqlite>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[idempotent_consumer(name = "topics.none-event", event = "OrderPaid")]
async fn no_topic_but_an_event(_tx: &mut Transaction<'_, Sqlite>) -> Result<(), sqlx::Error> {
    Ok(())
}

fn intake() -> Intake {
    Intake::new("subscription", IdFrom::header("id"))
}

async fn check(registrations: &[Registration], intake: &Intake) -> Result<(), StartError> {
    of(registrations).await.build().await.unwrap().check(intake)
}

#[tokio::test]
async fn a_topic_that_nobody_wants_is_refused() {
    let found =
        check(&[orders::registration(), none::registration()], &intake().topics(["orders", "refunds", "returns"])).await.unwrap_err();
    let texts: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "no consumer wants topic `refunds` (wanted: `orders`); is its crate linked?",
            "no consumer wants topic `returns` (wanted: `orders`); is its crate linked?"
        ]
    );
    check(&[orders::registration()], &intake()).await.expect("without topics nothing is known");
    let nobody = check(&[], &intake().topics(["orders"])).await.unwrap_err();
    assert!(nobody.to_string().contains("(wanted: none)"), "{nobody}");
    // As the broker spells it.
    assert!(check(&[orders::registration()], &intake().topics(["Orders"])).await.is_err());
}

/// Such a pointer matches nothing: every message would be a dead letter.
#[tokio::test]
async fn a_json_pointer_without_its_slash_is_refused() {
    let wrong = Intake::new("subscription", IdFrom::json_pointer("meta/id")).event_type(EventTypeFrom::json_pointer("type"));
    let found = check(&[orders::registration()], &wrong).await.unwrap_err();
    let texts: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "subscription `subscription` reads a JSON pointer that matches nothing, `meta/id`; write `/meta/id`",
            "subscription `subscription` reads a JSON pointer that matches nothing, `type`; write `/type`"
        ]
    );
    let right = Intake::new("subscription", IdFrom::json_pointer("/meta/id")).event_type(EventTypeFrom::json_pointer("/type"));
    check(&[orders::registration()], &right).await.expect("a pointer");
}

#[tokio::test]
async fn an_event_type_that_the_subscription_does_not_read_is_refused() {
    let found = check(&[orders::registration(), paid::registration()], &intake()).await.unwrap_err();
    assert_eq!(found.problems.len(), 1, "{found}");
    let text = found.to_string();
    assert!(text.contains("consumer `topics.paid` wants the event type `OrderPaid`, and subscription `subscription`"), "{text}");
    assert!(text.contains(&place(paid::registration())), "{text}");
    check(&[paid::registration()], &intake().event_type(EventTypeFrom::header("type"))).await.expect("it is read");
    // A subscription that brings other topics need not.
    check(&[orders::registration(), paid::registration()], &intake().topics(["orders"])).await.expect("no payments here");
    assert!(check(&[paid::registration()], &intake().topics(["payments"])).await.is_err());
    check(&[no_topic_but_an_event::registration()], &intake()).await.expect("it is called directly only");
}

#[tokio::test]
async fn topics_are_bound_to_consumers_that_are_there() {
    let registrations = [orders::registration(), none::registration()];
    let found = problems(of(&registrations).await.bind("topics.nobody", ["orders"]).bind("Topics.Orders", ["orders"])).await;
    assert_eq!(found.len(), 2, "{found:?}");
    let text = found[0].to_string();
    assert_eq!(text, "topics are bound to consumer `topics.nobody`, which is not there (linked: `topics.none`, `topics.orders`)");
    assert!(matches!(&found[1], StartProblem::BoundToNobody { name, .. } if name == "Topics.Orders"));
    // Instead of what the attribute says, and added up.
    let builder = of(&registrations).await.bind("topics.orders", ["a"]).bind("topics.orders", ["b"]).bind("topics.none", ["c"]);
    let bound = builder.build().await.unwrap();
    bound.check(&intake().topics(["a", "b", "c"])).expect("all are wanted");
    assert!(bound.check(&intake().topics(["orders"])).is_err());
}

#[tokio::test]
async fn a_runner_checks_before_it_subscribes() {
    let broker = Memory::new();
    broker.set_down(true);
    let dispatcher = of(&[orders::registration()]).await.build().await.unwrap();
    let refused = Runner::new(dispatcher, broker, intake().topics(["refunds"])).run().await.unwrap_err();
    assert!(matches!(&refused, RunError::Start(error) if error.problems.len() == 1), "{refused}");
}
