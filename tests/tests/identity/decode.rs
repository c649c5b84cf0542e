//! F15: payloads of another version. What cannot be decoded is a dead letter with its bytes and no inbox row; the others go on, and
//! after the upgrade the same message is applied under the same name.

use inbox_runtime::{Dispatcher, IdFrom, Inbox, Intake, Json, Message, MessageId, Outcome, Uuid};
use inbox_tests::database::sqlite;
use sqlx::Sqlite;

use super::support::*;

/// As deployed now.
mod now {
    use inbox_runtime::{Json, MessageId, idempotent_consumer};
    use serde::Deserialize;
    use sqlx::{Sqlite, Transaction};

    #[derive(Debug, Deserialize)]
    #[serde(tag = "type")]
    pub(super) enum Event {
        Placed { amount: u64 },
    }

    #[idempotent_consumer(name = "identity.decode", topic = "orders")]
    pub(super) async fn book(tx: &mut Transaction<'_, Sqlite>, id: MessageId, Json(event): Json<Event>) -> Result<(), sqlx::Error> {
        let Event::Placed { amount } = event;
        super::book(tx, id, amount).await
    }
}

/// As deployed next: another function, the same consumer.
mod next {
    use inbox_runtime::{Json, MessageId, idempotent_consumer};
    use serde::Deserialize;
    use sqlx::{Sqlite, Transaction};

    #[derive(Debug, Deserialize)]
    #[serde(tag = "type")]
    pub(super) enum Event {
        Placed { amount: Option<u64> },
        Refunded { amount: u64 },
    }

    #[idempotent_consumer(name = "identity.decode", topic = "orders")]
    pub(super) async fn book(tx: &mut Transaction<'_, Sqlite>, id: MessageId, Json(event): Json<Event>) -> Result<(), sqlx::Error> {
        let amount = match event {
            Event::Placed { amount } => amount.unwrap_or(0),
            Event::Refunded { amount } => amount,
        };
        super::book(tx, id, amount).await
    }
}

async fn book(tx: &mut sqlx::SqliteConnection, id: MessageId, amount: u64) -> Result<(), sqlx::Error> {
    let insert = sqlx::query("INSERT INTO applied (consumer, message_id) VALUES ('identity.decode', ?1)");
    insert.bind(id.to_string()).execute(&mut *tx).await?;
    let update = sqlx::query("UPDATE accounts SET balance_cents = balance_cents + ?1 WHERE id = 1");
    update.bind(i64::try_from(amount).unwrap_or(i64::MAX)).execute(tx).await.map(drop)
}

async fn dispatcher(inbox: &Inbox<Sqlite>) -> Dispatcher<Sqlite> {
    Dispatcher::builder(inbox).without_linked().register(now::book::registration()).build().await.unwrap()
}

fn numbered(at: u128, payload: &[u8]) -> (MessageId, Message) {
    let id = MessageId::try_from(Uuid::from_u128(at)).unwrap();
    (id, Message::new("orders", payload.to_vec()).with_header("id", id.to_string()))
}

/// (payload, what its error says)
const BAD: [(&[u8], &str); 9] = [
    (br#"{"type":"Refunded","amount":5}"#, "unknown variant `Refunded`"),
    (br#"{"type":"Placed"}"#, "missing field `amount`"),
    (br#"{"amount":5}"#, "missing field `type`"),
    (br#"{"type":"Placed","amount":18446744073709551616}"#, "invalid type"),
    (br#"{"type":"Placed","amount":-1}"#, "invalid value"),
    (br#"{"type":"Placed","amount":5,"amount":6}"#, "duplicate field `amount`"),
    (br#"{"type":"Placed","amount":5"#, "EOF"),
    (b"", "EOF"),
    (b"\xff\xfe\x00garbage", "expected value"),
];

const GOOD: [&[u8]; 2] = [br#"{"type":"Placed","amount":5}"#, br#"{"type":"Placed","amount":7,"currency":"EUR"}"#];

#[tokio::test]
async fn f15_a_payload_of_another_version_is_set_aside_with_its_bytes_and_the_others_go_on() {
    let (pool, _dir) = sqlite().await;
    let mut messages = Vec::new();
    for (i, (payload, _)) in BAD.iter().enumerate() {
        messages.push(numbered(1 + i as u128, payload).1);
        messages.push(numbered(100 + i as u128, GOOD[i % 2]).1);
    }
    let tombstone = Message { payload: None, ..numbered(50, b"").1 };
    messages.push(tombstone);
    let intake = Intake::new("orders", IdFrom::header("id"));
    let broker = handle(dispatcher(&Inbox::new(&pool)).await, intake, messages).await;
    assert_eq!((broker.counts().done, broker.counts().dead_lettered, broker.counts().retried), (9, 10, 0));
    assert_eq!((applied(&pool).await.len(), inbox_rows(&pool).await), (9, 9), "no row for what was not applied");
    let letters = letters(&pool).await;
    assert_eq!(letters.len(), 10);
    for (i, (letter, (payload, error))) in letters.iter().zip(BAD).enumerate() {
        assert_eq!((letter.reason.as_str(), letter.consumer_name.as_deref()), ("rejected", Some("identity.decode")));
        assert_eq!(letter.message_id, Some(Uuid::from_u128(1 + i as u128)));
        assert_eq!(letter.payload.as_deref(), Some(payload), "byte for byte");
        assert!(letter.error.contains(error), "{:?}: {}", String::from_utf8_lossy(payload), letter.error);
    }
    assert_eq!(letters[9].payload, None, "a tombstone is not an empty payload");
}

#[tokio::test]
async fn f15_after_the_upgrade_a_dead_letter_is_applied_once() {
    let (pool, _dir) = sqlite().await;
    let (id, message) = numbered(7, br#"{"type":"Refunded","amount":5}"#);
    handle(dispatcher(&Inbox::new(&pool)).await, Intake::new("orders", IdFrom::header("id")), vec![message.clone()]).await;
    let letter = letters(&pool).await.pop().unwrap();
    assert_eq!(letter.message_id, Some(id.as_uuid()));
    let event = || Json(serde_json::from_slice::<next::Event>(letter.payload.as_deref().unwrap()).unwrap());
    assert_eq!(next::book(&pool, id, id, event()).await.unwrap(), Outcome::Applied(()));
    assert_eq!(next::book(&pool, id, id, event()).await.unwrap(), Outcome::Duplicate(()));
    assert_eq!(applied(&pool).await, [id.to_string()]);
    // A late redelivery, which this version can read, is a duplicate too.
    let upgraded = Dispatcher::builder(&pool).without_linked().register(next::book::registration()).build().await.unwrap();
    let broker = handle(upgraded, Intake::new("orders", IdFrom::header("id")), vec![message]).await;
    assert_eq!((broker.counts().done, broker.counts().dead_lettered), (1, 0));
    assert_eq!(applied(&pool).await.len(), 1);
    let balance: i64 = sqlx::query_scalar("SELECT balance_cents FROM accounts WHERE id = 1").fetch_one(&pool).await.unwrap();
    assert_eq!(balance, 5);
}
