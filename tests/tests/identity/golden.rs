//! Mappings that must never change: what they gave once stands as keys in the inboxes of users. A failing test here means that every
//! message would be applied a second time after an update; do not "mend" the constants. They were computed by another implementation of
//! UUIDv5, over the bytes that the documentation of `MessageId` names.

use std::collections::HashMap;

use inbox_runtime::{MessageId, Uuid};

use super::support::*;

/// (source, text, key)
const TEXTS: [(&str, &str, &str); 14] = [
    ("orders", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "c9db516b-a65b-5dba-ae43-1d5effd01ae3"),
    ("orders", "01arz3ndektsv4rrffq69g5fav", "7c2eaa84-8cf3-5343-9778-a0f374b96b4e"),
    ("orders", "42", "ad6b9f62-e8d1-5878-a797-7de51f0056ba"),
    ("orders", "042", "cb9b26e8-ef42-5c64-91e3-8bfb0f6dcfa2"),
    ("orders", "-9223372036854775808", "86b3d8fa-9d3e-5af4-86a2-42a551c8f8c0"),
    ("orders", "order-42/3", "a6e6c54a-da50-5062-b3b3-7baadeeffd37"),
    ("orders", "b3JkZXItNDIvMw==", "a78de984-fa58-5cdc-a548-d92f1e488203"),
    ("orders", "Bestellung-Ä-漢字-🦀", "5f487615-a3c5-5c1f-94b6-841910ea1560"),
    ("orders", " 42", "49c434b1-2ed5-5063-a87a-5788ee3ef5b8"),
    ("orders", "6BA7B810-9DAD-11D1-80B4-00C04FD430C8", "c648a02b-1f88-5954-8686-3ab4689700b8"),
    ("payments", "42", "04ad5bb8-9347-5b06-b2c5-a62282a33dc0"),
    ("", "orders42", "79d81062-baf7-5493-ab66-f7a6becbf7a2"),
    ("a/b", "c", "956f9211-2735-54d0-a245-c928a9537113"),
    ("a", "b/c", "a8697bcc-9160-501c-b552-5a22f08cdf86"),
];

/// (consumer, ordinal, derived id) of the message `018f3c1e-7a4b-7c3d-9e5f-0123456789ab`.
const DERIVED: [(&str, u32, &str); 5] = [
    ("billing", 0, "c193d6f9-6051-59be-8433-e1b75a24f5d1"),
    ("billing", 1, "18b12cef-0ba5-54af-9479-a84047972769"),
    ("billing", u32::MAX, "4054d0bf-68fa-5d81-9f70-b5bb8c82e651"),
    ("shipping", 0, "e22b60f6-2206-5244-9480-e14ce700a01c"),
    ("billing.v2", 0, "0f8d6a79-b1dd-547e-8982-7cfab797af39"),
];

#[test]
fn f11_text_ids_map_to_these_keys_for_ever() {
    for (source, text, key) in TEXTS {
        let mapped = MessageId::from_text(source, text).unwrap().as_uuid();
        assert_eq!(mapped, uuid(key), "({source:?}, {text:?})");
        assert_eq!(mapped.get_version_num(), 5, "{text:?}");
    }
}

#[test]
fn derived_ids_are_these_for_ever() {
    let id = MessageId::parse("018f3c1e-7a4b-7c3d-9e5f-0123456789ab").unwrap();
    for (consumer, ordinal, derived) in DERIVED {
        assert_eq!(id.derive(consumer, ordinal), uuid(derived), "({consumer:?}, {ordinal})");
    }
}

#[test]
fn f11_no_two_texts_of_any_source_share_a_key() {
    let mut seen: HashMap<Uuid, (String, String)> = HashMap::new();
    for seed in 0..6 {
        for pair in texts(seed).chunks(2) {
            let [source, text] = pair else { continue };
            if text.trim().is_empty() {
                continue;
            }
            let mapped = MessageId::from_text(source, text).unwrap();
            assert_eq!(mapped, MessageId::from_text(source, text).unwrap(), "the same again");
            let this = (source.clone(), text.clone());
            if let Some(other) = seen.insert(mapped.as_uuid(), this.clone()) {
                assert_eq!(other, this, "two ids, one key");
            }
        }
    }
    assert!(seen.len() > 1_000, "{}", seen.len());
}

/// Wherever the border between source and text lies, it is part of the identity.
#[test]
fn f3_the_border_between_source_and_id_is_not_ambiguous() {
    let whole = "a/b/c/urn:x/7";
    let cuts = whole.char_indices().map(|(at, _)| whole.split_at(at)).filter(|(_, text)| !text.is_empty());
    let keys: Vec<MessageId> = cuts.map(|(source, text)| MessageId::from_text(source, text).unwrap()).collect();
    let distinct: std::collections::HashSet<_> = keys.iter().collect();
    assert_eq!((distinct.len(), keys.len()), (whole.len(), whole.len()));
}

#[test]
fn derived_ids_differ_by_message_consumer_and_ordinal() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut seen = std::collections::HashSet::new();
    for _ in 0..50 {
        let id = MessageId::try_from(Uuid::from_u128(random.u128(1..u128::MAX))).unwrap();
        for consumer in ["billing", "billing1", "shipping"] {
            for ordinal in [0, 1, 2, 0x3100_0000, u32::MAX] {
                assert!(seen.insert(id.derive(consumer, ordinal)), "{consumer} {ordinal}");
                assert_eq!(id.derive(consumer, ordinal), id.derive(consumer, ordinal));
            }
        }
        // A derived id is a usable id itself.
        MessageId::try_from(id.derive("billing", 0)).unwrap();
    }
}
