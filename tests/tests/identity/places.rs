//! Where the id sits: one place for a subscription, and what becomes of a message that has none there, or two.

use inbox_runtime::{HeaderProblem, Headers, IdFrom, InvalidId, Message, MessageId, NoId};

use super::support::*;

const A: &str = "018f3c1e-7a4b-7c3d-9e5f-0123456789ab";
const B: &str = "018f3c1e-7a4b-7c3d-9e5f-0123456789ac";

fn a() -> MessageId {
    MessageId::parse(A).unwrap()
}

#[track_caller]
fn header_problem(from: &IdFrom, message: &Message) -> HeaderProblem {
    match no_id(from, message) {
        NoId::Header(error) => error.problem,
        other => panic!("{other}"),
    }
}

#[test]
fn f4_a_message_without_the_header_has_no_id_whatever_else_it_carries() {
    // As from Kafka: a key, a payload with an id in it, other headers.
    let kafka = bare(&format!(r#"{{"id":"{A}"}}"#)).with_key(A).with_header("ID", A).with_header("id ", A).with_header("message_id", A);
    let missing = no_id(&IdFrom::header("id"), &kafka);
    assert_eq!(missing, NoId::Missing { place: "header `id`".to_owned() });
    assert_eq!(missing.to_string(), "the message has no id: header `id` is missing");
    // As from AMQP without the property, and from NATS without its header.
    let amqp = bare("{}").with_header("correlation_id", A).with_header("message-id", A);
    assert!(matches!(no_id(&IdFrom::amqp_message_id(), &amqp), NoId::Missing { .. }));
    assert!(matches!(no_id(&IdFrom::nats_msg_id(), &with("nats-msg-id", A)), NoId::Missing { .. }));
    assert!(matches!(no_id(&IdFrom::debezium_outbox(), &with("Id", A)), NoId::Missing { .. }));
}

#[test]
fn the_named_conventions_read_their_header() {
    for (from, header) in [
        (IdFrom::amqp_message_id(), "message_id"),
        (IdFrom::nats_msg_id(), "Nats-Msg-Id"),
        (IdFrom::debezium_outbox(), "id"),
        (IdFrom::header("Event-Id"), "Event-Id"),
    ] {
        assert_eq!(id(&from, &with(header, A)), a());
        assert_eq!(id(&from.clone().text("s"), &with(header, "42")), MessageId::from_text("s", "42").unwrap());
        assert!(matches!(no_id(&from, &with(header, "42")), NoId::Invalid(InvalidId::NotUuid { .. })), "a UUID unless told otherwise");
    }
}

#[test]
fn c15_a_header_that_cannot_be_used_is_no_id() {
    for from in [IdFrom::header("id"), IdFrom::header("id").text("s")] {
        let mut null = bare("{}");
        null.headers.push("id", None::<&str>);
        assert_eq!(header_problem(&from, &null), HeaderProblem::Null);
        assert_eq!(no_id(&from, &with("id", "")), NoId::Invalid(InvalidId::Empty));
        for bytes in [&b"\xff"[..], b"018f3c1e-7a4b-7c3d-9e5f-0123456789a\xc3", b"\xed\xa0\x80"] {
            assert_eq!(header_problem(&from, &with("id", bytes)), HeaderProblem::NotUtf8);
        }
        // Sixteen raw bytes are not a UUID's text.
        assert!(from.read(&with("id", [0xab; 16])).is_err());
    }
}

#[test]
fn c15_a_repeated_header_counts_once_if_equal_and_is_refused_if_not() {
    let from = IdFrom::header("id");
    let twice = |x: &str, y: &str| with("id", x).with_header("other", "1").with_header("id", y.to_owned());
    assert_eq!(id(&from, &twice(A, A)), a());
    assert_eq!(header_problem(&from, &twice(A, B)), HeaderProblem::Repeated);
    // Byte for byte: another spelling of the same id is another value. Stricter than needed, and never wrong.
    assert_eq!(header_problem(&from, &twice(A, &A.to_uppercase())), HeaderProblem::Repeated);
    let mut with_null = with("id", A);
    with_null.headers.push("id", None::<&str>);
    assert_eq!(header_problem(&from, &with_null), HeaderProblem::Repeated);
    let mut third = Headers::new();
    [A, A, B].into_iter().for_each(|value| third.push("id", Some(value)));
    assert_eq!(third.text("id").unwrap_err().problem, HeaderProblem::Repeated);
}

#[test]
fn json_pointers_take_strings_and_integers_and_nothing_else() {
    let from = IdFrom::json_pointer("/meta/id");
    assert_eq!(id(&from, &bare(&format!(r#"{{"meta":{{"id":"{A}"}}}}"#))), a());
    let text = from.clone().text("s");
    let at = |value: &str| bare(&format!(r#"{{"meta":{{"id":{value}}}}}"#));
    let number = |text: &str| MessageId::from_text("s", text).unwrap();
    for (value, mapped) in [
        ("\"42\"", "42"),
        ("42", "42"),
        ("-7", "-7"),
        ("0", "0"),
        ("18446744073709551615", "18446744073709551615"),
        ("-9223372036854775808", "-9223372036854775808"),
        (r#""\u00e4\/\n""#, "ä/\n"),
    ] {
        assert_eq!(id(&text, &at(value)), number(mapped), "{value}");
    }
    // A number that JSON readers round is no identity: two ids would become one.
    for value in ["1.0", "1.5", "1e3", "-0", "18446744073709551616", "123456789012345678901234567890", "true", "{}", "[]", r#"{"id":1}"#] {
        assert_eq!(no_id(&text, &at(value)), NoId::WrongType { pointer: "/meta/id".to_owned() }, "{value}");
    }
    assert!(matches!(no_id(&text, &at("null")), NoId::Missing { .. }));
    for payload in
        ["{}", r#"{"meta":{}}"#, r#"{"meta":{"ID":"1"}}"#, r#"{"meta/id":"1"}"#, r#"{"meta":["1"]}"#, r#"{"meta":"1"}"#, "[]", "7"]
    {
        assert!(matches!(no_id(&text, &bare(payload)), NoId::Missing { .. }), "{payload}");
    }
    for payload in ["", "{", "id=1", "{\"meta\":{\"id\":\"1\"}} x", "\u{feff}{}"] {
        assert!(matches!(no_id(&text, &bare(payload)), NoId::NotJson { .. }), "{payload}");
    }
    let tombstone = Message { payload: None, ..bare("") };
    assert!(matches!(no_id(&text, &tombstone), NoId::NotJson { .. }));
}

#[test]
fn json_pointers_follow_rfc_6901() {
    let payload = bare(r#"{"a/b":"slash","m~n":"tilde","":"empty","list":["zero",{"id":"in a list"}],"x":{"y":{"z":"deep"}}}"#);
    for (pointer, found) in
        [("/a~1b", "slash"), ("/m~0n", "tilde"), ("/", "empty"), ("/list/0", "zero"), ("/list/1/id", "in a list"), ("/x/y/z", "deep")]
    {
        assert_eq!(id(&IdFrom::json_pointer(pointer).text("s"), &payload), MessageId::from_text("s", found).unwrap(), "{pointer}");
    }
    for pointer in ["/list/2", "/list/-", "/list/00", "/list/+0", "/list/a", "/x/y/z/0", "/none"] {
        assert!(matches!(no_id(&IdFrom::json_pointer(pointer).text("s"), &payload), NoId::Missing { .. }), "{pointer}");
    }
    assert_eq!(id(&IdFrom::json_pointer("").text("s"), &bare("\"all of it\"")), MessageId::from_text("s", "all of it").unwrap());
}

/// JSON says nothing about a key that is there twice, and readers differ: the first, or the last. Two different ids are a dead letter.
#[test]
fn two_different_ids_at_one_pointer_are_no_id() {
    let from = IdFrom::json_pointer("/meta/id").text("s");
    for payload in [
        r#"{"meta":{"id":"1","id":"2"}}"#,
        r#"{"meta":{"id":"1","x":0,"\u0069d":"2"}}"#,
        r#"{"meta":{"id":"1"},"meta":{"id":"2"}}"#,
        r#"{"meta":{"id":"1","id":1}}"#,
        r#"{"meta":{"id":"1","id":null}}"#,
        r#"{"meta":{"id":"1"},"meta":null}"#,
        r#"{"meta":{"id":"1"},"meta":{}}"#,
    ] {
        assert_eq!(no_id(&from, &bare(payload)), NoId::Contradiction, "{payload}");
    }
    let one = MessageId::from_text("s", "1").unwrap();
    for payload in [
        r#"{"meta":{"id":"1","id":"1"}}"#,
        r#"{"meta":{"id":"1"},"meta":{"id":"1"}}"#,
        // What is beside the way to the id is not our business.
        r#"{"id":"1","id":"2","meta":{"id":"1","x":1,"x":2}}"#,
    ] {
        assert_eq!(id(&from, &bare(payload)), one, "{payload}");
    }
    let twice = bare(r#"{"specversion":"1.0","id":"1","source":"/a","id":"2"}"#);
    assert_eq!(no_id(&IdFrom::cloud_events(), &twice), NoId::Contradiction);
}

fn binary(prefix: &str, id: &str, source: &str, payload: &str) -> Message {
    bare(payload).with_header(format!("{prefix}id"), id.to_owned()).with_header(format!("{prefix}source"), source.to_owned())
}

fn structured(id: &str, source: &str) -> String {
    format!(r#"{{"specversion":"1.0","type":"order.placed","id":"{id}","source":"{source}","data":{{"id":"other"}}}}"#)
}

#[test]
fn f3_the_id_of_a_cloud_event_is_unique_within_its_source_only() {
    let from = IdFrom::cloud_events();
    let key = |source: &str, id: &str| MessageId::from_text(source, id).unwrap();
    for prefix in ["ce_", "ce-"] {
        assert_eq!(id(&from, &binary(prefix, "7", "/a", "{}")), key("/a", "7"));
        assert_eq!(id(&from, &binary(prefix, "7", "/b", "not JSON")), key("/b", "7"));
        assert_eq!(id(&from, &binary(prefix, "7", "/b", r#"{"id":"9","source":"/z"}"#)), key("/b", "7"), "a payload that is no event");
    }
    assert_eq!(id(&from, &bare(&structured("7", "/a"))), key("/a", "7"));
    assert_ne!(key("/a", "7"), key("/b", "7"));
    assert_ne!(id(&from, &bare(&structured("c", "a/b"))), id(&from, &bare(&structured("b/c", "a"))));
    // A UUID is a text here like any other: it is unique within its source only.
    assert_eq!(id(&from, &bare(&structured(A, "/a"))), key("/a", A));
}

#[test]
fn two_modes_of_a_cloud_event_must_agree() {
    let from = IdFrom::cloud_events();
    let both = MessageId::from_text("/a", "7").unwrap();
    assert_eq!(id(&from, &binary("ce_", "7", "/a", &structured("7", "/a"))), both);
    assert_eq!(no_id(&from, &binary("ce_", "7", "/a", &structured("8", "/a"))), NoId::Contradiction);
    assert_eq!(no_id(&from, &binary("ce-", "7", "/a", &structured("7", "/b"))), NoId::Contradiction);
    let twice = |id: &str| binary("ce_", "7", "/a", "{}").with_header("ce-id", id.to_owned()).with_header("ce-source", "/a");
    assert_eq!(id(&from, &twice("7")), both);
    assert_eq!(no_id(&from, &twice("8")), NoId::Contradiction);
}

#[test]
fn half_a_cloud_event_is_no_id() {
    let from = IdFrom::cloud_events();
    for message in [
        with("ce_id", "7"),
        with("ce-source", "/a"),
        with("ce_id", "7").with_header("ce-source", "/a"),
        bare(r#"{"specversion":"1.0","id":"7"}"#),
        bare(r#"{"specversion":"1.0","source":"/a"}"#),
        bare(r#"{"id":"7","source":"/a"}"#),
        bare("not JSON"),
        Message { payload: None, ..bare("") },
    ] {
        assert!(matches!(no_id(&from, &message), NoId::Missing { .. }), "{message:?}");
    }
    assert_eq!(no_id(&from, &binary("ce_", " ", "/a", "{}")), NoId::Invalid(InvalidId::Empty));
    let long = "x".repeat(1_024);
    assert_eq!(no_id(&from, &binary("ce_", "7", &long, "{}")), NoId::Invalid(InvalidId::TooLong { length: 1_025 }));
}
