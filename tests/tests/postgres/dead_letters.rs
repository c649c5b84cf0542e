//! Messages that are set aside: with every byte, acked only then, and free to be replayed.

use inbox_runtime::{Bytes, Headers, Json, Message, MessageId, Outcome, broker::Memory, idempotent_consumer};
use inbox_tests::database::postgres_with;
use sqlx::{PgPool, Postgres, Transaction};

use super::support::*;

#[derive(Debug, serde::Deserialize)]
struct OldOrder {
    account_id: i64,
}

#[idempotent_consumer(name = "strict", topic = "orders")]
async fn strict(tx: &mut Transaction<'_, Postgres>, id: MessageId, Json(order): Json<OldOrder>) -> Result<(), sqlx::Error> {
    assert!(order.account_id > 0);
    note(tx, "strict", id).await
}

/// The same consumer after the fix: it understands text.
#[idempotent_consumer(name = "strict")]
async fn lenient(tx: &mut Transaction<'_, Postgres>, id: MessageId, payload: Bytes) -> Result<(), sqlx::Error> {
    assert!(payload.starts_with(br#"{"account_id":"#));
    note(tx, "strict", id).await
}

async fn deliver(pool: &PgPool, message: Message) -> Memory {
    let broker = Memory::new();
    broker.publish(message);
    let dispatcher = inbox_runtime::Dispatcher::builder(pool).without_linked().register(strict::registration()).build().await.unwrap();
    let running = serve(dispatcher, &broker, intake());
    running.drain(&broker).await;
    running.stop().await.unwrap();
    broker
}

#[tokio::test]
async fn a8_a_dead_letter_that_is_replayed_is_no_duplicate() {
    let (pool, id) = (postgres_with(2).await, new_id());
    let broker = deliver(&pool, order(id, r#"{"account_id":"7"}"#)).await;
    assert_eq!((broker.counts().dead_lettered, broker.counts().deliveries), (1, 1), "the same bytes would fail again");
    let stored = letters(&pool).await;
    assert_eq!(stored.len(), 1);
    let letter = &stored[0];
    assert_eq!((letter.consumer_name.as_deref(), letter.reason.as_str(), letter.topic.as_str()), (Some("strict"), "rejected", "orders"));
    assert!(letter.error.contains("invalid type"), "{}", letter.error);
    assert_untouched(&pool, "strict", id).await;
    // The handler is mended, and the letter comes again by hand, under its own id.
    let id = MessageId::try_from(letter.message_id.unwrap()).unwrap();
    let payload = Bytes::from(letter.payload.clone().unwrap());
    assert_eq!(lenient(&pool, id, id, payload.clone()).await.unwrap(), Outcome::Applied(()));
    assert_eq!(lenient(&pool, id, id, payload).await.unwrap(), Outcome::Duplicate(()));
    assert_once(&pool, "strict", id).await;
}

#[tokio::test]
async fn f14_every_byte_of_a_dead_letter_is_kept() {
    let pool = postgres_with(2).await;
    let payload = Bytes::from_static(b"{\"name\": \"\\u0000\"}\x00\xff\xfe\r\n\x80");
    let mut headers = Headers::new();
    let id = new_id();
    headers.push("id", Some(id.to_string()));
    headers.push("nul\0name", Some("a\0b"));
    headers.push("binary", Some(vec![0xff, 0x00, 0xfe]));
    headers.push("null", None::<Bytes>);
    headers.push("empty", Some(""));
    headers.push("twice", Some("1"));
    headers.push("twice", Some("2"));
    let key = Bytes::from_static(b"\x00key\xff");
    let message = Message { topic: "orders".to_owned(), key: Some(key.clone()), headers, payload: Some(payload.clone()) };
    let broker = deliver(&pool, message).await;
    assert_eq!((broker.counts().dead_lettered, broker.counts().deliveries), (1, 1));
    let stored = letters(&pool).await;
    assert_eq!(stored.len(), 1);
    let letter = &stored[0];
    assert_eq!(letter.payload.as_deref(), Some(payload.as_ref()));
    assert_eq!(letter.message_key.as_deref(), Some(key.as_ref()));
    let headers: serde_json::Value = serde_json::from_str(&letter.headers).unwrap();
    let expected = serde_json::json!([
        ["id", id.to_string()], ["nul\0name", "a\0b"], ["binary", {"hex": "ff00fe"}], ["null", null], ["empty", ""], ["twice", "1"], ["twice", "2"]
    ]);
    assert_eq!(headers, expected);
}

#[tokio::test]
async fn f14_an_id_with_a_nul_is_a_dead_letter_without_a_loop() {
    let pool = postgres_with(2).await;
    let broker = deliver(&pool, Message::new("orders", "{}").with_header("id", "a\0b")).await;
    assert_eq!((broker.counts().dead_lettered, broker.counts().deliveries), (1, 1));
    let stored = letters(&pool).await;
    assert_eq!((stored[0].reason.as_str(), stored[0].message_id), ("no_id", None));
    assert!(yes(&pool, "SELECT count(*) = 0 FROM public.inbox").await);
}

#[tokio::test]
async fn a_tombstone_is_kept_apart_from_an_empty_payload() {
    let (pool, gone, empty) = (postgres_with(2).await, new_id(), new_id());
    deliver(&pool, Message { payload: None, ..order(gone, "") }).await;
    deliver(&pool, order(empty, "")).await;
    let stored = letters(&pool).await;
    let payloads: Vec<_> = stored.iter().map(|letter| letter.payload.as_deref()).collect();
    assert_eq!(payloads, [None, Some(b"".as_slice())]);
}

#[tokio::test]
async fn a_dead_letter_that_comes_again_stays_one_row() {
    let (pool, id) = (postgres_with(2).await, new_id());
    for _ in 0..3 {
        deliver(&pool, order(id, "[]")).await;
    }
    assert_eq!(letters(&pool).await.len(), 1);
    assert!(yes(&pool, "SELECT count(*) = 0 FROM public.inbox").await);
}

/// The ack is lost, so the same message comes again and again. Two that only look the same are two.
#[tokio::test]
async fn what_comes_again_is_no_second_letter() {
    let pool = postgres_with(2).await;
    let broker = Memory::with_faults(inbox_runtime::broker::Faults::seeded(7).lose_settle(0.8));
    (0..2).for_each(|_| broker.publish(Message::new("orders", "{}")));
    broker.publish(Message::new("nobody's", "{}").with_header("id", new_id().to_string()));
    let running = serve(dispatcher(&pool, noting(), &["billing"]).await, &broker, intake());
    running.drain(&broker).await;
    running.stop().await.unwrap();
    assert!(broker.counts().deliveries > 6, "{:?}", broker.counts());
    let mut reasons: Vec<String> = letters(&pool).await.into_iter().map(|letter| letter.reason).collect();
    reasons.sort_unstable();
    assert_eq!(reasons, ["no_id", "no_id", "unmatched"]);
}

#[tokio::test]
async fn what_caused_a_failure_is_told_wherever_the_failure_is() {
    let (pool, id) = (postgres_with(2).await, new_id());
    #[derive(Debug, thiserror::Error)]
    #[error("crediting")]
    struct Crediting(#[source] sqlx::Error);
    let body = script(|tx, _| {
        Box::pin(async move {
            let missing = sqlx::query("UPDATE no_such_table SET a = 1").persistent(false).execute(&mut **tx).await.map_err(Crediting);
            missing.map(drop).map_err(Into::into)
        })
    });
    let broker = Memory::new();
    broker.publish(order(id, "{}"));
    let failed = dispatch_one(&dispatcher(&pool, body, &["billing"]).await, &broker).await;
    assert!(failed[0].contains("crediting: ") && failed[0].contains("no_such_table"), "{failed:?}");
    // A message that was refused never reached the body.
    deliver(&pool, order(id, "[]")).await;
    let letters = letters(&pool).await;
    assert!(letters[0].error.starts_with("the message cannot be decoded: "), "{}", letters[0].error);
}
