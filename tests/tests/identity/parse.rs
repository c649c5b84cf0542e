//! What may be an id: spellings, placeholders, empty and long ones.

use inbox_runtime::{IdFrom, Inbox, Intake, InvalidId, MessageId, NoId, Outcome, Uuid, idempotent_consumer};
use inbox_tests::database::sqlite;
use sqlx::{Sqlite, Transaction};

use super::support::*;

#[idempotent_consumer(name = "identity.parse", topic = "orders")]
async fn counting(tx: &mut Transaction<'_, Sqlite>, id: MessageId) -> Result<(), sqlx::Error> {
    let insert = sqlx::query("INSERT INTO applied (consumer, message_id) VALUES ('identity.parse', ?1)");
    insert.bind(id.to_string()).execute(&mut **tx).await.map(drop)
}

async fn dispatcher(inbox: &Inbox<Sqlite>) -> inbox_runtime::Dispatcher<Sqlite> {
    inbox_runtime::Dispatcher::builder(inbox).only(["identity.parse"]).build().await.unwrap()
}

fn by_header() -> IdFrom {
    IdFrom::header("id")
}

fn text() -> IdFrom {
    IdFrom::header("id").text("orders")
}

/// The same UUID in all its spellings.
fn spellings(uuid: Uuid) -> Vec<String> {
    let plain = uuid.to_string();
    let mut all = vec![plain.clone(), uuid.simple().to_string(), uuid.urn().to_string(), uuid.braced().to_string()];
    all.push(plain.to_uppercase());
    all.push(uuid.simple().to_string().to_uppercase());
    all.push(format!("{{{}}}", plain.to_uppercase()));
    all.push(format!("urn:uuid:{}", plain.to_uppercase()));
    all
}

#[tokio::test]
async fn f1_placeholder_ids_are_dead_letters_and_none_is_skipped() {
    let (pool, _dir) = sqlite().await;
    let mut messages = Vec::new();
    for placeholder in [Uuid::nil(), Uuid::max()] {
        for spelling in spellings(placeholder) {
            assert_eq!(MessageId::parse(&spelling), Err(InvalidId::Placeholder { found: placeholder }), "{spelling}");
            messages.push(with("id", &spelling));
        }
        assert_eq!(MessageId::try_from(placeholder), Err(InvalidId::Placeholder { found: placeholder }));
    }
    let sent = messages.len();
    let broker = handle(dispatcher(&Inbox::new(&pool)).await, Intake::new("orders", by_header()), messages).await;
    let letters = letters(&pool).await;
    assert_eq!((letters.len(), broker.counts().dead_lettered), (sent, sent as u64));
    for letter in letters {
        assert_eq!((letter.reason.as_str(), letter.message_id, letter.consumer_name), ("no_id", None, None));
        assert!(letter.error.contains("is a placeholder, not an event id"), "{}", letter.error);
    }
    assert_eq!((inbox_rows(&pool).await, applied(&pool).await.len()), (0, 0));
}

#[test]
fn f2_empty_and_blank_ids_are_none() {
    for blank in ["", " ", "\t", "\r\n", "\u{a0}", "\u{2003} "] {
        assert_eq!(MessageId::parse(blank), Err(InvalidId::Empty), "{blank:?}");
        assert_eq!(MessageId::from_text("orders", blank), Err(InvalidId::Empty), "{blank:?}");
        for from in [by_header(), text()] {
            assert_eq!(no_id(&from, &with("id", blank)), NoId::Invalid(InvalidId::Empty), "{blank:?}");
        }
    }
}

/// Where ids are UUIDs these are none. Where they are texts they are texts like any other, and two events with them are one: that is why a
/// UUID is the default.
#[test]
fn f2_null_and_undefined_are_no_uuids_and_texts_like_any_other() {
    for word in ["null", "undefined", "None", "0", "NaN"] {
        assert_eq!(no_id(&by_header(), &with("id", word)), NoId::Invalid(InvalidId::NotUuid { found: word.to_owned() }));
        assert_eq!(id(&text(), &with("id", word)), MessageId::from_text("orders", word).unwrap());
    }
}

#[tokio::test]
async fn f10_every_spelling_of_a_uuid_is_one_id_and_one_effect() {
    let ((pool, _dir), uuid) = (sqlite().await, Uuid::now_v7());
    let messages: Vec<_> = spellings(uuid).into_iter().map(|spelling| with("id", spelling)).collect();
    let sent = messages.len() as u64;
    let broker = handle(dispatcher(&Inbox::new(&pool)).await, Intake::new("orders", by_header()), messages).await;
    assert_eq!((broker.counts().done, broker.counts().dead_lettered), (sent, 0));
    assert_eq!(applied(&pool).await, [uuid.to_string()]);
    assert_eq!(counting(&pool, uuid.try_into().unwrap(), uuid.try_into().unwrap()).await.unwrap(), Outcome::Duplicate(()));
}

#[test]
fn f10_spellings_that_are_none_are_refused_and_opaque_text_stays_exact() {
    let uuid = uuid("018f3c1e-7a4b-7c3d-9e5f-0123456789ab");
    let wrong = [
        " 018f3c1e-7a4b-7c3d-9e5f-0123456789ab",
        "018f3c1e-7a4b-7c3d-9e5f-0123456789ab\n",
        "018f3c1e-7a4b-7c3d-9e5f-0123456789a",
        "018f3c1e-7a4b-7c3d-9e5f-0123456789abc",
        "018f3c1e7a4b-7c3d-9e5f-0123456789ab",
        "{018f3c1e-7a4b-7c3d-9e5f-0123456789ab",
        "018f3c1g-7a4b-7c3d-9e5f-0123456789ab",
        "uuid:018f3c1e-7a4b-7c3d-9e5f-0123456789ab",
        "018f3c1e-7a4b-7c3d-9e5f-0123456789ab,018f3c1e-7a4b-7c3d-9e5f-0123456789ab",
    ];
    for text in wrong {
        assert!(matches!(MessageId::parse(text), Err(InvalidId::NotUuid { .. })), "{text:?}");
    }
    let mut keys: Vec<MessageId> =
        spellings(uuid).iter().chain(&wrong.map(str::to_owned)).map(|text| MessageId::from_text("orders", text).unwrap()).collect();
    let sent = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), sent, "texts are compared byte for byte");
}

#[tokio::test]
async fn f17_ids_are_measured_before_any_sql() {
    let (pool, _dir) = sqlite().await;
    let mut random = fastrand::Rng::with_seed(17);
    let mut long = |length: usize| -> String { (0..length).map(|_| random.alphanumeric()).collect() };
    let lengths = [255, 256, 1_017, 1_018, 1_019, 2_700, 8_192];
    let messages = lengths.map(|length| with("id", long(length))).to_vec();
    handle(dispatcher(&Inbox::new(&pool)).await, Intake::new("orders", text()), messages).await;
    // "orders" takes six of the 1,024 bytes.
    assert_eq!(MessageId::MAX_TEXT, 1_024);
    assert_eq!(applied(&pool).await.len(), 4);
    let letters = letters(&pool).await;
    assert_eq!(letters.len(), 3);
    for (letter, length) in letters.iter().zip([1_025, 2_706, 8_198]) {
        assert_eq!(letter.reason, "no_id");
        assert!(letter.error.contains(&format!("is {length} bytes long with its source; at most 1024 are taken")), "{}", letter.error);
    }
}

#[test]
fn f17_two_long_ids_that_begin_alike_are_two() {
    let start = "x".repeat(1_000);
    let (a, b) = (format!("{start}1"), format!("{start}2"));
    assert_ne!(MessageId::from_text("o", &a), MessageId::from_text("o", &b));
    assert_eq!(MessageId::from_text(&start, &start), Err(InvalidId::TooLong { length: 2_000 }));
    // An id that is refused is not copied whole into the error.
    let Err(InvalidId::NotUuid { found }) = MessageId::parse(&"ä".repeat(5_000)) else { panic!("a UUID") };
    assert!(found.chars().count() <= 65, "{}", found.len());
}

/// A NUL in an id is a character; in a dead letter it must not stop the insert.
#[tokio::test]
async fn f14_an_id_with_a_nul_is_a_text_and_no_uuid() {
    let (pool, _dir) = sqlite().await;
    let messages = vec![with("id", "a\0b")];
    handle(dispatcher(&Inbox::new(&pool)).await, Intake::new("orders", by_header()), messages.clone()).await;
    let letters = letters(&pool).await;
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].headers, r#"[["id","a\u0000b"]]"#);
    handle(dispatcher(&Inbox::new(&pool)).await, Intake::new("orders", text()), messages).await;
    assert_eq!(applied(&pool).await, [MessageId::from_text("orders", "a\0b").unwrap().to_string()]);
}
