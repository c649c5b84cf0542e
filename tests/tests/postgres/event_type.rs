//! A message whose event type cannot be read is not the same as one that has none.

use inbox_runtime::{Dispatcher, EventTypeFrom, Message, MessageId, Unmatched, broker::Memory, idempotent_consumer};
use inbox_tests::database::postgres;
use sqlx::{Postgres, Transaction};

use super::support::*;

#[idempotent_consumer(name = "typed.audit", topic = "typed")]
async fn audit(tx: &mut Transaction<'_, Postgres>, id: MessageId) -> Result<(), sqlx::Error> {
    note(tx, "typed.audit", id).await
}

#[idempotent_consumer(name = "typed.placed", topic = "typed", event = "OrderPlaced")]
async fn placed(tx: &mut Transaction<'_, Postgres>, id: MessageId) -> Result<(), sqlx::Error> {
    note(tx, "typed.placed", id).await
}

fn typed(id: MessageId, payload: &'static str) -> Message {
    Message::new("typed", payload).with_header("id", id.to_string())
}

async fn handle(only: &[&str], from: EventTypeFrom, unmatched: Unmatched, message: Message) -> (sqlx::PgPool, Memory) {
    let (pool, broker) = (postgres().await, Memory::new());
    broker.publish(message);
    let dispatcher = Dispatcher::builder(&pool).only(only.iter().copied()).build().await.unwrap();
    let running = serve(dispatcher, &broker, intake().event_type(from).unmatched(unmatched));
    running.drain(&broker).await;
    running.stop().await.unwrap();
    (pool, broker)
}

/// What is wrong, where the type should be, what is done to the message, and its payload.
type Case = (&'static str, EventTypeFrom, fn(Message) -> Message, &'static str);

#[tokio::test]
async fn one_that_cannot_be_read_is_a_dead_letter_of_whoever_asks_for_it() {
    let header = || EventTypeFrom::header("type");
    let pointer = || EventTypeFrom::json_pointer("/type");
    let cases: [Case; 6] = [
        ("repeated", header(), |m| m.with_header("type", "OrderPlaced").with_header("type", "orderplaced"), "{}"),
        ("not UTF-8", header(), |m| m.with_header("type", &b"Order\xffPlaced"[..]), "{}"),
        (
            "null",
            header(),
            |mut m| {
                m.headers.push("type", None::<&'static [u8]>);
                m
            },
            "{}",
        ),
        ("not JSON", pointer(), |m| m, "OrderPlaced"),
        ("not text", pointer(), |m| m, r#"{"type":["OrderPlaced"]}"#),
        ("contradiction", pointer(), |m| m, r#"{"type":"OrderPlaced","type":"OrderPaid"}"#),
    ];
    for (what, from, change, payload) in cases {
        let id = new_id();
        let (pool, broker) =
            handle(&["typed.audit", "typed.placed"], from.clone(), Unmatched::DeadLetter, change(typed(id, payload))).await;
        // Whoever does not ask is served.
        assert_once(&pool, "typed.audit", id).await;
        assert_untouched(&pool, "typed.placed", id).await;
        let letters = letters(&pool).await;
        assert_eq!((broker.counts().dead_lettered, letters.len()), (1, 1), "{what}: {letters:?}");
        let letter = &letters[0];
        assert_eq!((letter.reason.as_str(), letter.consumer_name.as_deref()), ("no_event_type", Some("typed.placed")), "{what}");
        assert!(letter.error.starts_with("the event type cannot be read"), "{what}: {}", letter.error);
        // Nobody decided to drop it, either.
        let (pool, broker) = handle(&["typed.placed"], from, Unmatched::Ack, change(typed(new_id(), payload))).await;
        assert_eq!((broker.counts().dead_lettered, super::support::letters(&pool).await.len()), (1, 1), "{what} with Unmatched::Ack");
    }
}

#[tokio::test]
async fn one_that_is_absent_is_nobody_s_event() {
    for (from, payload) in [(EventTypeFrom::header("type"), "{}"), (EventTypeFrom::json_pointer("/type"), r#"{"other":1}"#)] {
        let (pool, broker) = handle(&["typed.audit", "typed.placed"], from, Unmatched::DeadLetter, typed(new_id(), payload)).await;
        assert_eq!((broker.counts().done, letters(&pool).await.len()), (1, 0));
    }
}
