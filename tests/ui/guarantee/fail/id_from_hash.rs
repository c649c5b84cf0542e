//! A hash of the payload is not an id: two orders may look the same.
use std::hash::{DefaultHasher, Hasher};

use inbox_runtime::MessageId;

pub fn hashed(payload: &[u8]) -> MessageId {
    let mut hasher = DefaultHasher::new();
    hasher.write(payload);
    MessageId::from(hasher.finish())
}

pub fn taken(payload: &[u8]) -> Option<MessageId> {
    MessageId::try_from(payload).ok()
}

fn main() {}
