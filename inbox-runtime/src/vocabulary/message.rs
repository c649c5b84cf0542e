use bytes::Bytes;
use uuid::Uuid;

use super::headers::Headers;

/// A message as it came from a broker.
///
/// Properties that are not headers on the wire (AMQP `message_id`, SQS attributes) arrive as headers, by names that
/// each broker adapter documents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// The topic, queue or subject it was read from; handlers are routed by it.
    pub topic: String,
    /// The key that the broker orders by, where it has one.
    pub key: Option<Bytes>,
    /// The headers, in their order.
    pub headers: Headers,
    /// The payload; `None` is a tombstone (Kafka's null value), which is not the same as an empty payload.
    pub payload: Option<Bytes>,
}

impl Message {
    /// A message with a payload, and no key and no headers yet.
    #[must_use]
    pub fn new(topic: impl Into<String>, payload: impl Into<Bytes>) -> Self {
        Self { topic: topic.into(), payload: Some(payload.into()), ..Self::default() }
    }

    /// The same message with one more header.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<Bytes>) -> Self {
        self.headers.push(name, Some(value));
        self
    }

    /// The same message with this key.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<Bytes>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// A short fingerprint of the payload, kept in the inbox row to notice one id with two payloads. It is *not* an
    /// identity: two legitimate events may have the same body. Taken from SHA-1 (through UUIDv5), stable across versions.
    pub(crate) fn fingerprint(&self) -> i64 {
        const NAMESPACE: Uuid = Uuid::from_u128(0x4f6c_9b0e_6d1b_4d3e_9a35_1c2f_7c80_55aa);
        let digest = Uuid::new_v5(&NAMESPACE, self.payload.as_deref().unwrap_or_default());
        let (_, low) = digest.as_u64_pair();
        low.cast_signed()
    }
}
