//! F1, F2, F7, F9: ids that are none, and ids that stand for two things.

use inbox_runtime::{IdFrom, Intake, Json, Message, MessageId, Mismatch, broker::Memory, idempotent_consumer};
use inbox_tests::database::postgres_with;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use sqlx::{PgPool, Postgres, Transaction};

use super::support::*;

async fn deliver(pool: &PgPool, intake: Intake, messages: impl IntoIterator<Item = Message>) -> Memory {
    let broker = Memory::new();
    messages.into_iter().for_each(|message| broker.publish(message));
    let running = serve(dispatcher(pool, noting(), &["billing", "pay"]).await, &broker, intake);
    running.drain(&broker).await;
    running.stop().await.unwrap();
    broker
}

async fn none_runs(placeholder: &'static str, because: &str) {
    let pool = postgres_with(2).await;
    let event = |amount: &'static str| Message::new("orders", amount).with_header("id", placeholder);
    let broker = deliver(&pool, intake(), [event("10"), event("20")]).await;
    let counts = broker.counts();
    assert_eq!((counts.deliveries, counts.dead_lettered, counts.done), (2, 2, 0), "{placeholder:?}: {counts:?}");
    let stored = letters(&pool).await;
    let mut payloads: Vec<_> = stored.iter().map(|letter| letter.payload.as_deref().unwrap()).collect();
    payloads.sort_unstable();
    assert_eq!(payloads, [b"10", b"20"], "none is skipped, none takes the other's place");
    for letter in &stored {
        assert_eq!((letter.reason.as_str(), letter.message_id, letter.consumer_name.as_deref()), ("no_id", None, None));
        assert!(letter.error.contains(because), "{}", letter.error);
    }
    assert!(yes(&pool, "SELECT (SELECT count(*) FROM applied) + (SELECT count(*) FROM public.inbox) = 0").await);
}

#[tokio::test]
async fn f1_the_nil_uuid_is_no_id() {
    none_runs("00000000-0000-0000-0000-000000000000", "is a placeholder").await;
    none_runs("ffffffff-ffff-ffff-ffff-ffffffffffff", "is a placeholder").await;
}

#[tokio::test]
async fn f2_an_empty_id_is_no_id() {
    none_runs("", "is empty").await;
    none_runs(" ", "is empty").await;
    none_runs("null", "is not a UUID").await;
    none_runs("undefined", "is not a UUID").await;
}

#[tokio::test]
async fn f2_an_empty_text_id_is_no_id_either() {
    let pool = postgres_with(2).await;
    let texts = Intake::new("orders", IdFrom::header("id").text("shop"));
    let broker = deliver(&pool, texts, ["", " "].map(|id| Message::new("orders", "{}").with_header("id", id))).await;
    assert_eq!(broker.counts().dead_lettered, 2);
    assert!(yes(&pool, "SELECT count(*) = 0 FROM public.inbox").await);
}

#[tokio::test]
async fn f3_one_id_of_two_sources_is_two_messages() {
    let pool = postgres_with(2).await;
    let event =
        |source: &'static str, id: &'static str| Message::new("orders", "{}").with_header("ce_id", id).with_header("ce_source", source);
    let events = [event("/a", "7"), event("/b", "7"), event("a/b", "c"), event("a", "b/c"), event("/a", "7")];
    let broker = deliver(&pool, Intake::new("orders", IdFrom::cloud_events()), events).await;
    assert_eq!(broker.counts().done, 5);
    assert!(yes(&pool, "SELECT count(*) = 4 FROM applied").await);
}

#[tokio::test]
async fn f10_one_uuid_in_other_spellings_is_one_message() {
    let (pool, id) = (postgres_with(2).await, new_id());
    let uuid = id.as_uuid();
    let spellings = [
        uuid.hyphenated().to_string(),
        uuid.hyphenated().to_string().to_uppercase(),
        uuid.braced().to_string(),
        uuid.urn().to_string(),
        uuid.simple().to_string(),
    ];
    let broker = deliver(&pool, intake(), spellings.map(|id| Message::new("orders", "{}").with_header("id", id))).await;
    assert_eq!(broker.counts().done, 5);
    assert_once(&pool, "billing", id).await;
}

#[derive(serde::Deserialize)]
struct Payment {
    amount_cents: i64,
}

#[idempotent_consumer(name = "pay", topic = "payments")]
async fn pay(tx: &mut Transaction<'_, Postgres>, id: MessageId, Json(payment): Json<Payment>) -> Result<(), sqlx::Error> {
    note(tx, "pay", id).await?;
    let update = sqlx::query("UPDATE accounts SET balance_cents = balance_cents + $1 WHERE id = 1");
    update.bind(payment.amount_cents).execute(&mut **tx).await.map(drop)
}

/// Two payloads under one id; how often the mismatch was counted.
async fn two_payloads(pool: &PgPool, intake: Intake) -> (Memory, MessageId, u64) {
    let id = new_id();
    let payment = |payload: &'static str| {
        let mut message = order(id, payload);
        "payments".clone_into(&mut message.topic);
        message
    };
    let recorder = DebuggingRecorder::new();
    let counted = recorder.snapshotter();
    let guard = metrics::set_default_local_recorder(&recorder);
    let broker = deliver(pool, intake, [r#"{"amount_cents":10}"#, r#"{"amount_cents":99}"#, r#"{"amount_cents":10}"#].map(payment)).await;
    drop(guard);
    let mismatches = counted.snapshot().into_vec().into_iter().find_map(|(key, _, _, value)| match value {
        DebugValue::Counter(count) if key.key().name() == "inbox_payload_mismatches_total" => Some(count),
        _ => None,
    });
    (broker, id, mismatches.unwrap_or_default())
}

#[tokio::test]
async fn f9_one_id_with_another_payload_is_skipped_and_counted() {
    let pool = postgres_with(2).await;
    let (broker, id, mismatches) = two_payloads(&pool, intake()).await;
    assert_eq!((broker.counts().done, broker.counts().dead_lettered), (3, 0));
    assert_eq!(mismatches, 1, "the repeat of the first payload is none");
    assert_once(&pool, "pay", id).await;
    assert!(yes(&pool, "SELECT balance_cents = 10 FROM accounts WHERE id = 1").await);
    assert!(letters(&pool).await.is_empty());
}

#[tokio::test]
async fn f9_one_id_with_another_payload_can_be_a_dead_letter() {
    let pool = postgres_with(2).await;
    let (broker, id, mismatches) = two_payloads(&pool, intake().mismatch(Mismatch::DeadLetter)).await;
    assert_eq!((broker.counts().done, broker.counts().dead_lettered), (2, 1));
    assert_eq!(mismatches, 1);
    assert_once(&pool, "pay", id).await;
    let stored = letters(&pool).await;
    assert_eq!(stored.len(), 1);
    assert_eq!((stored[0].reason.as_str(), stored[0].payload.as_deref()), ("payload_mismatch", Some(br#"{"amount_cents":99}"#.as_slice())));
    assert!(yes(&pool, "SELECT balance_cents = 10 FROM accounts WHERE id = 1").await);
}

#[tokio::test]
async fn f7_one_id_for_two_event_types_is_one_message_for_a_consumer_of_both() {
    let (pool, id) = (postgres_with(2).await, new_id());
    let placed = order(id, r#"{"type":"OrderPlaced"}"#);
    let paid = order(id, r#"{"type":"OrderPaid"}"#);
    let broker = deliver(&pool, intake(), [placed, paid]).await;
    // The rule: the event type is not part of the key. The second is skipped, and that is noticed.
    assert_eq!(broker.counts().done, 2);
    assert_once(&pool, "billing", id).await;
}

#[idempotent_consumer(name = "settle.v1")]
async fn settle_before(tx: &mut Transaction<'_, Postgres>, id: MessageId) -> Result<(), sqlx::Error> {
    note(tx, "settle", id).await
}

#[idempotent_consumer(name = "settle", aliases = ["settle.v1"])]
async fn settle_now(tx: &mut Transaction<'_, Postgres>, id: MessageId) -> Result<(), sqlx::Error> {
    note(tx, "settle", id).await
}

#[tokio::test]
async fn f9_another_payload_is_noticed_under_a_former_name_too() {
    let (pool, id) = (postgres_with(2).await, new_id());
    for (consumer, payload, dead) in [("settle.v1", "10", 0), ("settle", "10", 0), ("settle", "99", 1)] {
        let broker = Memory::new();
        broker.publish(order(id, payload));
        let builder = inbox_runtime::Dispatcher::builder(&pool).only([consumer]).bind(consumer, ["orders"]);
        let running = serve(builder.build().await.unwrap(), &broker, intake().mismatch(Mismatch::DeadLetter));
        running.drain(&broker).await;
        running.stop().await.unwrap();
        assert_eq!(broker.counts().dead_lettered, dead, "{consumer} with {payload}");
    }
    assert_eq!(applied(&pool, "settle", id).await, 1);
    assert_eq!((claimed(&pool, "settle.v1", id).await, claimed(&pool, "settle", id).await), (1, 0));
}
