//! F13, F3, F4: many messages without an id, or with one that is not theirs alone. None is lost, and none is given an id.

use std::collections::BTreeSet;

use inbox_runtime::{Bytes, Dispatcher, IdFrom, Intake, Message, Mismatch, Uuid, idempotent_consumer};
use inbox_tests::database::sqlite;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use sqlx::{Sqlite, SqlitePool, Transaction};

use super::support::*;

/// Its effect is the payload.
#[idempotent_consumer(name = "identity.batch", topic = "orders")]
async fn keeping(tx: &mut Transaction<'_, Sqlite>, payload: Bytes) -> Result<(), sqlx::Error> {
    let insert = sqlx::query("INSERT INTO applied (consumer, message_id) VALUES ('identity.batch', ?1)");
    insert.bind(String::from_utf8_lossy(&payload).into_owned()).execute(&mut **tx).await.map(drop)
}

async fn dispatcher(pool: &SqlitePool) -> Dispatcher<Sqlite> {
    Dispatcher::builder(pool).only(["identity.batch"]).build().await.unwrap()
}

fn counter(of: &Snapshotter, name: &str) -> u64 {
    let all = of.snapshot().into_vec();
    all.into_iter()
        .filter(|(key, ..)| key.key().name() == name)
        .map(|(.., value)| if let DebugValue::Counter(n) = value { n } else { 0 })
        .sum()
}

fn bodies() -> Vec<Message> {
    (1..=5).map(|i| bare(&format!("body {i}"))).collect()
}

fn payloads(letters: &[Letter]) -> BTreeSet<Vec<u8>> {
    letters.iter().filter_map(|letter| letter.payload.clone()).collect()
}

#[tokio::test]
async fn f13_five_messages_without_an_id_are_five_dead_letters() {
    for from in
        [IdFrom::header("id"), IdFrom::amqp_message_id(), IdFrom::nats_msg_id(), IdFrom::cloud_events(), IdFrom::json_pointer("/id")]
    {
        let (pool, _dir) = sqlite().await;
        let broker = handle(dispatcher(&pool).await, Intake::new("orders", from.clone()), bodies()).await;
        assert_eq!((broker.counts().done, broker.counts().dead_lettered, broker.counts().deliveries), (0, 5, 5), "{from:?}");
        let letters = letters(&pool).await;
        let sent: BTreeSet<Vec<u8>> = bodies().into_iter().filter_map(|message| message.payload).map(Into::into).collect();
        assert_eq!((letters.len(), payloads(&letters)), (5, sent), "{from:?}");
        assert!(letters.iter().all(|letter| letter.reason == "no_id" && letter.message_id.is_none()), "{letters:?}");
        assert_eq!((inbox_rows(&pool).await, applied(&pool).await.len()), (0, 0), "{from:?}");
    }
}

/// A body of its own cannot be an identity: two equal bodies without an id are two messages.
#[tokio::test]
async fn f13_equal_messages_without_an_id_are_not_collapsed() {
    let (pool, _dir) = sqlite().await;
    handle(dispatcher(&pool).await, Intake::new("orders", IdFrom::header("id")), vec![bare("same"); 5]).await;
    assert_eq!(letters(&pool).await.len(), 5);
}

fn one_id_for_all() -> (Uuid, Vec<Message>) {
    let id = Uuid::now_v7();
    (id, bodies().into_iter().map(|message| message.with_header("id", id.to_string())).collect())
}

#[tokio::test]
async fn f13_one_id_with_different_bodies_is_applied_once_and_the_repeats_are_reported() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _local = metrics::set_default_local_recorder(&recorder);
    let ((pool, _dir), (_, messages)) = (sqlite().await, one_id_for_all());
    let broker = handle(dispatcher(&pool).await, Intake::new("orders", IdFrom::header("id")), messages.clone()).await;
    assert_eq!((broker.counts().done, broker.counts().dead_lettered), (5, 0));
    assert_eq!(applied(&pool).await, ["body 1"]);
    assert_eq!(counter(&snapshotter, "inbox_payload_mismatches_total"), 4);
    // The very same message again is a duplicate, and no news.
    handle(dispatcher(&pool).await, Intake::new("orders", IdFrom::header("id")), messages[..1].to_vec()).await;
    assert_eq!(counter(&snapshotter, "inbox_payload_mismatches_total"), 0, "since the last snapshot");
}

#[tokio::test]
async fn f9_repeats_with_other_bodies_become_dead_letters_when_told_so_each_with_its_body() {
    let ((pool, _dir), (id, messages)) = (sqlite().await, one_id_for_all());
    let intake = Intake::new("orders", IdFrom::header("id")).mismatch(Mismatch::DeadLetter);
    let twice = messages.iter().chain(&messages).cloned().collect();
    let broker = handle(dispatcher(&pool).await, intake, twice).await;
    assert_eq!((broker.counts().done, broker.counts().dead_lettered), (2, 8));
    assert_eq!(applied(&pool).await, ["body 1"]);
    let letters = letters(&pool).await;
    let wanted: BTreeSet<Vec<u8>> = (2..=5).map(|i| format!("body {i}").into_bytes()).collect();
    assert_eq!(payloads(&letters), wanted, "every body that was not applied can be seen");
    assert_eq!(letters.len(), 4, "and a redelivery adds none: {letters:?}");
    for letter in letters {
        assert_eq!((letter.reason.as_str(), letter.message_id), ("payload_mismatch", Some(id)));
        assert_eq!(letter.consumer_name.as_deref(), Some("identity.batch"));
    }
}

#[tokio::test]
async fn f3_the_same_id_of_two_sources_is_applied_for_both() {
    let (pool, _dir) = sqlite().await;
    let event = |source: &str| bare(source).with_header("ce_id", "7").with_header("ce_source", source.to_owned());
    let messages = vec![event("/a"), event("/b"), event("/a")];
    let broker = handle(dispatcher(&pool).await, Intake::new("orders", IdFrom::cloud_events()), messages).await;
    assert_eq!((broker.counts().done, broker.counts().dead_lettered), (3, 0));
    assert_eq!(applied(&pool).await, ["/a", "/b"]);
}

#[tokio::test]
async fn two_ids_in_one_message_are_a_dead_letter_and_no_row() {
    let (pool, _dir) = sqlite().await;
    let (one, two) = (Uuid::now_v7(), Uuid::now_v7());
    let messages = vec![bare("x").with_header("id", one.to_string()).with_header("id", two.to_string())];
    handle(dispatcher(&pool).await, Intake::new("orders", IdFrom::header("id")), messages).await;
    let letters = letters(&pool).await;
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].error, "the message has no usable id: header `id` is given more than once, with different values");
    assert_eq!(letters[0].headers, format!(r#"[["id","{one}"],["id","{two}"]]"#), "as they came");
    assert_eq!((inbox_rows(&pool).await, applied(&pool).await.len()), (0, 0));
}

/// The fingerprint is no identity: two events with one body are two.
#[tokio::test]
async fn equal_bodies_under_two_ids_are_two_effects() {
    let (pool, _dir) = sqlite().await;
    let message = || bare("same").with_header("id", Uuid::now_v7().to_string());
    handle(dispatcher(&pool).await, Intake::new("orders", IdFrom::header("id")), vec![message(), message()]).await;
    assert_eq!(applied(&pool).await, ["same", "same"]);
    let hashes: Vec<i64> = sqlx::query_scalar("SELECT payload_hash FROM main.inbox").fetch_all(&pool).await.unwrap();
    // SHA-1 through UUIDv5, for ever: it is compared with what older versions stored.
    assert_eq!(hashes, [FINGERPRINT_OF_SAME; 2]);
}

const FINGERPRINT_OF_SAME: i64 = -8_941_077_841_362_486_937;
