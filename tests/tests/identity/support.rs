//! Messages, a runner over them, and what stands in the database afterwards.

use std::time::Duration;

use inbox_runtime::{Dispatcher, IdFrom, Intake, Message, MessageId, NoId, Runner, Uuid, broker::Memory};
use sqlx::{Sqlite, SqlitePool};
use tokio_util::sync::CancellationToken;

/// A message without headers.
pub(super) fn bare(payload: &str) -> Message {
    Message::new("orders", payload.to_owned())
}

/// A message with one header.
pub(super) fn with(name: &str, value: impl AsRef<[u8]>) -> Message {
    bare("{}").with_header(name, value.as_ref().to_vec())
}

pub(super) fn uuid(text: &str) -> Uuid {
    text.parse().expect("a UUID")
}

#[track_caller]
pub(super) fn id(from: &IdFrom, message: &Message) -> MessageId {
    from.read(message).expect("an id")
}

#[track_caller]
pub(super) fn no_id(from: &IdFrom, message: &Message) -> NoId {
    from.read(message).expect_err("no id")
}

/// Texts of many lengths and alphabets, the same in every run.
pub(super) fn texts(seed: u64) -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let alphabet: Vec<char> = "abcXYZ019-_/+=:. {}\"\\\u{0}\u{7f}äßж漢🦀\u{301}".chars().collect();
    (0..500).map(|_| (0..random.usize(1..40)).map(|_| alphabet[random.usize(..alphabet.len())]).collect()).collect()
}

/// Hands the messages to the consumers in this order, and waits until the broker holds nothing any more.
pub(super) async fn handle(dispatcher: Dispatcher<Sqlite>, intake: Intake, messages: Vec<Message>) -> Memory {
    let (broker, stop) = (Memory::new(), CancellationToken::new());
    messages.into_iter().for_each(|message| broker.publish(message));
    let task = tokio::spawn(Runner::new(dispatcher, broker.clone(), intake).stop_on(stop.clone()).run());
    let drained = async {
        while !broker.is_empty() {
            assert!(!task.is_finished(), "the runner ended early");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), drained).await.expect("all is settled");
    stop.cancel();
    task.await.expect("the runner does not panic").expect("it was told to stop");
    broker
}

#[derive(Debug, sqlx::FromRow)]
pub(super) struct Letter {
    pub(super) consumer_name: Option<String>,
    pub(super) message_id: Option<Uuid>,
    pub(super) reason: String,
    pub(super) error: String,
    pub(super) headers: String,
    pub(super) payload: Option<Vec<u8>>,
}

pub(super) async fn letters(pool: &SqlitePool) -> Vec<Letter> {
    let all = "SELECT consumer_name, message_id, reason, error, headers, payload FROM main.inbox_dead_letter ORDER BY id";
    sqlx::query_as(all).fetch_all(pool).await.expect("the dead letters")
}

/// The message ids that a consumer's effect stands under, sorted.
pub(super) async fn applied(pool: &SqlitePool) -> Vec<String> {
    sqlx::query_scalar("SELECT message_id FROM applied ORDER BY message_id").fetch_all(pool).await.expect("the ledger")
}

pub(super) async fn inbox_rows(pool: &SqlitePool) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM main.inbox").fetch_one(pool).await.expect("the inbox")
}
