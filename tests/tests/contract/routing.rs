//! Each message goes to every consumer that wants it, and each of them has a transaction and a row of its own.

use inbox_runtime::{Dispatcher, EventTypeFrom, Inbox, Intake, Key, Message, MessageId, Unmatched, broker::Memory, idempotent_consumer};
use sqlx::{Sqlite, SqlitePool, Transaction};

use super::support::*;

async fn note(tx: &mut Transaction<'_, Sqlite>, consumer: &str, id: MessageId) -> Result<(), sqlx::Error> {
    let insert = sqlx::query("INSERT INTO applied (consumer, message_id) VALUES (?1, ?2)");
    insert.bind(consumer).bind(id.as_uuid().as_u128().to_string()).execute(&mut **tx).await.map(drop)
}

#[idempotent_consumer(name = "routing.orders", topic = "orders")]
async fn orders(tx: &mut Transaction<'_, Sqlite>, id: MessageId) -> Result<(), sqlx::Error> {
    note(tx, "routing.orders", id).await
}

#[idempotent_consumer(name = "routing.both", topics = ["orders", "refunds"])]
async fn both(tx: &mut Transaction<'_, Sqlite>, id: MessageId) -> Result<(), sqlx::Error> {
    note(tx, "routing.both", id).await
}

#[idempotent_consumer(name = "routing.placed", topic = "orders", event = "Placed")]
async fn placed(tx: &mut Transaction<'_, Sqlite>, id: MessageId) -> Result<(), sqlx::Error> {
    note(tx, "routing.placed", id).await
}

#[idempotent_consumer(name = "routing.paid", topic = "orders", event = "Paid")]
async fn paid(tx: &mut Transaction<'_, Sqlite>, id: MessageId) -> Result<(), sqlx::Error> {
    note(tx, "routing.paid", id).await
}

/// Refuses every message: there is no key.
#[idempotent_consumer(name = "routing.keyed", topic = "refunds")]
async fn keyed(tx: &mut Transaction<'_, Sqlite>, id: MessageId, _: Key) -> Result<(), sqlx::Error> {
    note(tx, "routing.keyed", id).await
}

const ALL: [&str; 4] = ["routing.both", "routing.orders", "routing.paid", "routing.placed"];

/// Who applied this message.
async fn appliers(pool: &SqlitePool, number: u128) -> Vec<String> {
    let all = sqlx::query_scalar("SELECT consumer FROM applied WHERE message_id = ?1 ORDER BY consumer");
    all.bind(number.to_string()).fetch_all(pool).await.expect("the ledger")
}

fn message(topic: &str, number: u128, event: Option<&str>) -> Message {
    let mut message = numbered(number);
    topic.clone_into(&mut message.topic);
    if let Some(event) = event {
        message.headers.push("type", Some(event.to_owned()));
    }
    message
}

async fn handled(inbox: &Inbox<Sqlite>, only: &[&str], intake: Intake, messages: Vec<Message>) -> Memory {
    let broker = Memory::new();
    messages.into_iter().for_each(|message| broker.publish(message));
    let dispatcher = Dispatcher::builder(inbox).only(only.iter().copied()).build().await.unwrap();
    let running = serve(dispatcher, broker.clone(), intake);
    running.drain(&broker).await;
    running.stop().await.unwrap();
    broker
}

fn typed() -> Intake {
    intake().event_type(EventTypeFrom::header("type"))
}

#[tokio::test]
async fn a_message_goes_to_all_that_want_its_topic_and_its_event() {
    let (pool, inbox) = pool().await;
    let messages = vec![
        message("orders", 1, Some("Placed")),
        message("orders", 2, Some("Paid")),
        message("orders", 3, Some("placed")),
        message("orders", 4, None),
        message("refunds", 5, Some("Placed")),
    ];
    let broker = handled(&inbox, &ALL, typed(), messages).await;
    assert_eq!(broker.counts().done, 5);
    assert_eq!(appliers(&pool, 1).await, ["routing.both", "routing.orders", "routing.placed"]);
    assert_eq!(appliers(&pool, 2).await, ["routing.both", "routing.orders", "routing.paid"]);
    assert_eq!(appliers(&pool, 3).await, ["routing.both", "routing.orders"], "byte for byte");
    assert_eq!(appliers(&pool, 4).await, ["routing.both", "routing.orders"], "without a type only those that take all");
    assert_eq!(appliers(&pool, 5).await, ["routing.both"]);
    let rows: Vec<(String, i64)> =
        sqlx::query_as("SELECT consumer_name, count(*) FROM inbox GROUP BY 1 ORDER BY 1").fetch_all(&pool).await.unwrap();
    let wanted = [("routing.both", 5), ("routing.orders", 4), ("routing.paid", 1), ("routing.placed", 1)];
    assert_eq!(rows, wanted.map(|(name, rows)| (name.to_owned(), rows)));
}

#[tokio::test]
async fn the_event_type_may_stand_in_the_payload() {
    let (pool, inbox) = pool().await;
    let from = intake().event_type(EventTypeFrom::json_pointer("/meta/type"));
    let with = |number, payload: &str| Message { payload: Some(payload.to_owned().into()), ..message("orders", number, Some("Paid")) };
    let messages = vec![with(1, r#"{"meta":{"type":"Placed"}}"#), with(2, r#"{"meta":{}}"#), with(3, "no JSON")];
    handled(&inbox, &["routing.placed", "routing.paid"], from.unmatched(Unmatched::Ack), messages).await;
    assert_eq!(appliers(&pool, 1).await, ["routing.placed"]);
    assert_eq!(appliers(&pool, 2).await, [""; 0]);
    assert_eq!(appliers(&pool, 3).await, [""; 0]);
}

/// An event type that is there twice with two values is none: it is not guessed.
#[tokio::test]
async fn a_contradicting_event_type_reaches_only_those_that_take_all() {
    let (pool, inbox) = pool().await;
    let mut twice = message("orders", 1, Some("Placed"));
    twice.headers.push("type", Some("Paid"));
    handled(&inbox, &ALL, typed(), vec![twice]).await;
    assert_eq!(appliers(&pool, 1).await, ["routing.both", "routing.orders"]);
}

#[tokio::test]
async fn an_event_that_nobody_wants_is_unmatched() {
    let (pool, inbox) = pool().await;
    let messages = vec![message("orders", 1, Some("Shipped")), message("Orders", 2, None), message("orders.eu", 3, None)];
    let broker = handled(&inbox, &["routing.placed"], typed(), messages).await;
    assert_eq!((broker.counts().done, broker.counts().dead_lettered), (0, 3));
    let letters: Vec<String> =
        sqlx::query_scalar("SELECT error FROM inbox_dead_letter WHERE reason = 'unmatched' ORDER BY id").fetch_all(&pool).await.unwrap();
    assert_eq!(letters.len(), 3);
    assert_eq!(letters[1], "no consumer wants this message of topic `Orders`");
}

/// One consumer cannot read it, the other can: a dead letter for the one, an effect for the other, and the message is done with.
#[tokio::test]
async fn a_dead_letter_of_one_consumer_does_not_cost_the_other_its_effect() {
    let (pool, inbox) = pool().await;
    let broker = handled(&inbox, &["routing.both", "routing.keyed"], intake(), vec![message("refunds", 1, None)]).await;
    assert_eq!((broker.counts().done, broker.counts().dead_lettered, broker.counts().deliveries), (0, 1, 1));
    assert_eq!(appliers(&pool, 1).await, ["routing.both"]);
    let letters: Vec<(String, String)> =
        sqlx::query_as("SELECT consumer_name, reason FROM inbox_dead_letter").fetch_all(&pool).await.unwrap();
    assert_eq!(letters, [("routing.keyed".to_owned(), "rejected".to_owned())]);
}

#[tokio::test]
async fn the_same_message_in_several_copies_is_applied_once_by_each() {
    let (pool, inbox) = pool().await;
    let messages = vec![message("orders", 1, Some("Placed")); 4];
    let broker = handled(&inbox, &ALL, typed(), messages).await;
    assert_eq!(broker.counts().done, 4);
    assert_eq!(appliers(&pool, 1).await, ["routing.both", "routing.orders", "routing.placed"]);
}

/// Each database has a dispatcher, and a message may have consumers in both: the delivery is acked with the receipts of all of them, and
/// with nothing less.
#[tokio::test]
async fn two_dispatchers_answer_for_one_delivery() {
    let ((pool, inbox), broker) = (pool().await, Memory::new());
    let only = |name: &'static str| Dispatcher::builder(&inbox).only([name]).build();
    let (one, other) = (only("routing.orders").await.unwrap(), only("routing.both").await.unwrap());
    let subscription = subscribe(&broker, 10).await;
    for refused in [true, false] {
        broker.publish(message("orders", if refused { 1 } else { 2 }, None));
        let mut delivery = receive(&subscription).await.pop().unwrap();
        if refused {
            sqlx::raw_sql(
                "CREATE TRIGGER no BEFORE INSERT ON applied WHEN NEW.consumer = 'routing.both' BEGIN SELECT RAISE(ABORT, 'no'); END",
            )
            .execute(&pool)
            .await
            .unwrap();
        } else {
            sqlx::raw_sql("DROP TRIGGER no").execute(&pool).await.unwrap();
        }
        let (first, second) = (one.dispatch(&mut delivery, &intake()).await, other.dispatch(&mut delivery, &intake()).await);
        assert_eq!((first.failures.len(), second.failures.len()), (0, usize::from(refused)));
        let receipts = first.receipts.into_iter().chain(second.receipts).collect();
        assert_eq!(delivery.ack(receipts).is_err(), refused, "a receipt of the one does not stand for the other");
    }
}
