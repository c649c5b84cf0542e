//! Where a message carries its id and its event type: one explicit choice per subscription, without a default and a chain.

use std::borrow::Cow;

use serde_json::Value;

use super::{
    headers::HeaderError,
    id::{InvalidId, MessageId},
    message::Message,
    pointer::{Found, find},
};

/// Where a subscription takes the id of a message from.
///
/// There is no default, and no chain of places to look in: a republish that lacks one of them would get a second identity. A
/// message without a usable id is not run and not given one; it becomes a dead letter with that reason.
///
/// ```
/// use inbox_runtime::IdFrom;
///
/// let plain = IdFrom::header("event-id");                       // a UUID in a header
/// let nested = IdFrom::json_pointer("/meta/id");                // a UUID in the payload
/// let opaque = IdFrom::header("order-no").text("orders-api");   // any text, unique within that source
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdFrom {
    place: Place,
    format: Format,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Header(Cow<'static, str>),
    JsonPointer(Cow<'static, str>),
    CloudEvents,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Format {
    Uuid,
    Text { source: String },
}

impl IdFrom {
    const fn at(place: Place) -> Self {
        Self { place, format: Format::Uuid }
    }

    /// A header. The same name twice with one value counts once; with two values the message is a dead letter.
    pub fn header(name: impl Into<Cow<'static, str>>) -> Self {
        Self::at(Place::Header(name.into()))
    }

    /// A place in a JSON payload, as an RFC 6901 pointer: `/meta/id`. Strings and integers are taken. A key on the way that is there twice
    /// counts once if both lead to one value, else the message is a dead letter.
    pub fn json_pointer(pointer: impl Into<Cow<'static, str>>) -> Self {
        Self::at(Place::JsonPointer(pointer.into()))
    }

    /// `CloudEvents` 1.0: `id` and `source`, from the headers `ce_id`/`ce_source` or `ce-id`/`ce-source` (binary mode) or the payload
    /// (structured mode). Both together are the identity, as the specification says. If both modes carry one, they must agree.
    #[must_use]
    pub const fn cloud_events() -> Self {
        Self::at(Place::CloudEvents)
    }

    /// Debezium's outbox event router: the header `id`, a UUID.
    #[must_use]
    pub const fn debezium_outbox() -> Self {
        Self::at(Place::Header(Cow::Borrowed("id")))
    }

    /// The AMQP property `message_id`, a UUID unless [`IdFrom::text`] is added. Adapters pass it as the header `message_id`.
    #[must_use]
    pub const fn amqp_message_id() -> Self {
        Self::at(Place::Header(Cow::Borrowed("message_id")))
    }

    /// The header `Nats-Msg-Id`, a UUID unless [`IdFrom::text`] is added.
    #[must_use]
    pub const fn nats_msg_id() -> Self {
        Self::at(Place::Header(Cow::Borrowed("Nats-Msg-Id")))
    }

    /// The id is any text, unique within `source`: see [`MessageId::from_text`]. Without this it must be a UUID. `source` is part
    /// of the identity for good, like a consumer's name.
    #[must_use]
    pub fn text(mut self, source: impl Into<String>) -> Self {
        self.format = Format::Text { source: source.into() };
        self
    }

    /// The JSON pointer that it follows, if it follows one.
    pub(crate) fn pointer(&self) -> Option<&str> {
        match &self.place {
            Place::JsonPointer(pointer) => Some(pointer),
            Place::Header(_) | Place::CloudEvents => None,
        }
    }

    /// The id of this message.
    ///
    /// # Errors
    ///
    /// [`NoId`] with the reason that goes into the dead letter.
    pub fn read(&self, message: &Message) -> Result<MessageId, NoId> {
        match &self.place {
            Place::Header(name) => {
                self.parse(message.headers.text(name)?.ok_or_else(|| NoId::Missing { place: format!("header `{name}`") })?)
            }
            Place::JsonPointer(pointer) => self.parse(&json_text(message, pointer)?),
            Place::CloudEvents => cloud_event(message),
        }
    }

    fn parse(&self, text: &str) -> Result<MessageId, NoId> {
        match &self.format {
            Format::Uuid => MessageId::parse(text),
            Format::Text { source } => MessageId::from_text(source, text),
        }
        .map_err(NoId::Invalid)
    }
}

fn json_text(message: &Message, pointer: &str) -> Result<String, NoId> {
    let found = find(message.payload.as_deref().unwrap_or_default(), pointer).map_err(|e| NoId::NotJson { cause: e.to_string() })?;
    match found {
        Found::One(Value::String(text)) => Ok(text),
        Found::One(Value::Number(number)) if number.is_u64() || number.is_i64() => Ok(number.to_string()),
        Found::One(Value::Null) | Found::Nothing => Err(NoId::Missing { place: format!("payload at `{pointer}`") }),
        Found::One(_) => Err(NoId::WrongType { pointer: pointer.to_owned() }),
        Found::Several => Err(NoId::Contradiction),
    }
}

fn cloud_event(message: &Message) -> Result<MessageId, NoId> {
    let headers = &message.headers;
    let mut found: Vec<MessageId> = Vec::new();
    for (id, source) in [("ce_id", "ce_source"), ("ce-id", "ce-source")] {
        if let Some(id) = headers.text(id)? {
            let source = headers.text(source)?.ok_or_else(|| NoId::Missing { place: format!("header `{source}`") })?;
            found.push(MessageId::from_text(source, id).map_err(NoId::Invalid)?);
        }
    }
    // A binary-mode payload may be anything; only one that says it is a CloudEvent carries an id of its own.
    let payload = message.payload.as_deref().unwrap_or_default();
    if !matches!(find(payload, "/specversion"), Ok(Found::Nothing) | Err(_)) {
        let (id, source) = (json_text(message, "/id")?, json_text(message, "/source")?);
        found.push(MessageId::from_text(&source, &id).map_err(NoId::Invalid)?);
    }
    let first =
        *found.first().ok_or_else(|| NoId::Missing { place: "header `ce_id`, and the payload is no structured CloudEvent".to_owned() })?;
    if found.iter().any(|other| *other != first) { Err(NoId::Contradiction) } else { Ok(first) }
}

/// Why a message has no usable id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoId {
    /// It is not where the subscription says.
    #[error("the message has no id: {place} is missing")]
    Missing {
        /// The place.
        place: String,
    },
    /// The header cannot be used.
    #[error("the message has no usable id: {0}")]
    Header(#[from] HeaderError),
    /// The text is no id.
    #[error("the message has no usable id: {0}")]
    Invalid(#[source] InvalidId),
    /// The payload is not JSON.
    #[error("the message has no usable id: its payload is not JSON: {cause}")]
    NotJson {
        /// The parser's text.
        cause: String,
    },
    /// Neither a string nor an integer.
    #[error("the message has no usable id: the payload at `{pointer}` is neither a string nor an integer")]
    WrongType {
        /// The place.
        pointer: String,
    },
    /// Two different ids in one message.
    #[error("the message has two different ids")]
    Contradiction,
}

/// Where a subscription takes the event type of a message from. Only consumers with `event = ".."` ask.
///
/// A message that has none is no event of theirs. One whose type cannot be read (a header that is null, not UTF-8 or there twice with two
/// values; a payload that is not JSON) may be: it becomes a dead letter of each of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventTypeFrom(EventPlace);

#[derive(Debug, Clone, PartialEq, Eq)]
enum EventPlace {
    Header(Cow<'static, str>),
    JsonPointer(Cow<'static, str>),
}

impl EventTypeFrom {
    /// A header, as in `ce_type` or Debezium's `eventType`.
    pub fn header(name: impl Into<Cow<'static, str>>) -> Self {
        Self(EventPlace::Header(name.into()))
    }

    /// A place in a JSON payload, as an RFC 6901 pointer.
    pub fn json_pointer(pointer: impl Into<Cow<'static, str>>) -> Self {
        Self(EventPlace::JsonPointer(pointer.into()))
    }

    /// The JSON pointer that it follows, if it follows one.
    pub(crate) fn pointer(&self) -> Option<&str> {
        match &self.0 {
            EventPlace::JsonPointer(pointer) => Some(pointer),
            EventPlace::Header(_) => None,
        }
    }

    /// The event type; `None` when the message has none: no such header, nothing or `null` at that place, no payload.
    pub(crate) fn read(&self, message: &Message) -> Result<Option<String>, NoEventType> {
        let pointer = match &self.0 {
            EventPlace::Header(name) => return Ok(message.headers.text(name)?.map(str::to_owned)),
            EventPlace::JsonPointer(pointer) => pointer,
        };
        let Some(payload) = &message.payload else { return Ok(None) };
        match find(payload, pointer).map_err(|e| NoEventType::NotJson { cause: e.to_string() })? {
            Found::One(Value::String(text)) => Ok(Some(text)),
            Found::One(Value::Number(number)) => Ok(Some(number.to_string())),
            Found::One(Value::Null) | Found::Nothing => Ok(None),
            Found::One(_) => Err(NoEventType::WrongType { pointer: pointer.clone().into_owned() }),
            Found::Several => Err(NoEventType::Contradiction),
        }
    }
}

/// Why the event type of a message cannot be read. That is not the same as having none: nobody has decided to drop it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoEventType {
    #[error("the event type cannot be read: {0}")]
    Header(#[from] HeaderError),
    #[error("the event type cannot be read: the payload is not JSON: {cause}")]
    NotJson { cause: String },
    #[error("the event type cannot be read: the payload at `{pointer}` is neither a string nor a number")]
    WrongType { pointer: String },
    #[error("the event type cannot be read: the message has two different ones")]
    Contradiction,
}
