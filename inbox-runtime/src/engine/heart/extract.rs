use std::{error::Error, str::FromStr};

use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::context::{MessageContext, Requirements};
use crate::vocabulary::{error::Rejection, headers::Headers, id::MessageId};

/// A type that a consumer's parameter may have: it is taken from the message before the body runs.
///
/// Extractors are owned values. An extractor that fails makes the message a dead letter: the same bytes would fail again. It
/// does no I/O and must not have effects, since the message may still turn out to be rolled back and come again.
///
/// ```
/// use inbox_runtime::{FromMessage, MessageContext, Rejection};
///
/// /// The tenant, from the topic `tenant.orders`.
/// struct Tenant(String);
///
/// impl FromMessage for Tenant {
///     fn from_message(context: &MessageContext) -> Result<Self, Rejection> {
///         let (tenant, _) = context.message().topic.split_once('.').ok_or_else(|| Rejection::new("the topic names no tenant"))?;
///         Ok(Self(tenant.to_owned()))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be taken from a message",
    label = "this parameter is not an extractor",
    note = "wrap a payload type in `Json<_>`, or implement `FromMessage` for `{Self}`"
)]
pub trait FromMessage: Sized {
    /// Takes it.
    ///
    /// # Errors
    ///
    /// A [`Rejection`] that says what is wrong with the message; its text goes into the dead letter.
    fn from_message(context: &MessageContext) -> Result<Self, Rejection>;

    /// What it needs from the dispatcher, so that a missing piece shows at the start and not at the first message.
    fn requires(_requirements: &mut Requirements) {}
}

/// An extractor that may find nothing: what `Option<Self>` takes.
///
/// Absent is `None`; there but malformed is still a rejection.
#[diagnostic::on_unimplemented(
    message = "`Option<{Self}>` cannot be taken from a message",
    label = "this parameter is not an extractor",
    note = "`Option` goes around `Json<_>`, `Header<_>`, `Key`, `Bytes` or a type that implements `OptionalFromMessage`"
)]
pub trait OptionalFromMessage: Sized {
    /// Takes it, if it is there.
    ///
    /// # Errors
    ///
    /// A [`Rejection`] when it is there and cannot be used.
    fn optional_from_message(context: &MessageContext) -> Result<Option<Self>, Rejection>;
}

#[diagnostic::do_not_recommend]
impl<T: OptionalFromMessage> FromMessage for Option<T> {
    fn from_message(context: &MessageContext) -> Result<Self, Rejection> {
        T::optional_from_message(context)
    }
}

/// The payload, read as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned> FromMessage for Json<T> {
    fn from_message(context: &MessageContext) -> Result<Self, Rejection> {
        Self::optional_from_message(context)?
            .ok_or_else(|| Rejection::new("the message has no payload; take `Option<Json<_>>` to accept tombstones"))
    }
}

impl<T: DeserializeOwned> OptionalFromMessage for Json<T> {
    fn optional_from_message(context: &MessageContext) -> Result<Option<Self>, Rejection> {
        let payload = context.message().payload.as_deref();
        payload.map(|bytes| serde_json::from_slice(bytes).map(Self).map_err(Rejection::new)).transpose()
    }
}

/// A header that has a name and a way to be read from text: what [`Header`] takes.
pub trait NamedHeader: FromStr<Err: Error + Send + Sync + 'static> {
    /// The header's name, byte for byte.
    const NAME: &'static str;
}

/// One header of the message, parsed.
///
/// ```
/// use inbox_runtime::NamedHeader;
///
/// struct Tenant(u32);
///
/// impl std::str::FromStr for Tenant {
///     type Err = std::num::ParseIntError;
///     fn from_str(text: &str) -> Result<Self, Self::Err> {
///         text.parse().map(Self)
///     }
/// }
///
/// impl NamedHeader for Tenant {
///     const NAME: &'static str = "tenant-id";
/// }
/// // a consumer then takes `Header(tenant): Header<Tenant>`
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<T>(pub T);

impl<T: NamedHeader> FromMessage for Header<T> {
    fn from_message(context: &MessageContext) -> Result<Self, Rejection> {
        Self::optional_from_message(context)?.ok_or_else(|| Rejection::new(format!("header `{}` is missing", T::NAME)))
    }
}

impl<T: NamedHeader> OptionalFromMessage for Header<T> {
    fn optional_from_message(context: &MessageContext) -> Result<Option<Self>, Rejection> {
        let text = context.message().headers.text(T::NAME).map_err(Rejection::new)?;
        let parse = |text: &str| text.parse().map(Self);
        text.map(parse).transpose().map_err(|e| Rejection::new(format!("header `{}`: {e}", T::NAME)))
    }
}

/// The key that the broker orders by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key(pub Bytes);

impl FromMessage for Key {
    fn from_message(context: &MessageContext) -> Result<Self, Rejection> {
        Self::optional_from_message(context)?.ok_or_else(|| Rejection::new("the message has no key"))
    }
}

impl OptionalFromMessage for Key {
    fn optional_from_message(context: &MessageContext) -> Result<Option<Self>, Rejection> {
        Ok(context.message().key.clone().map(Self))
    }
}

/// The payload's bytes.
impl FromMessage for Bytes {
    fn from_message(context: &MessageContext) -> Result<Self, Rejection> {
        Self::optional_from_message(context)?
            .ok_or_else(|| Rejection::new("the message has no payload; take `Option<Bytes>` to accept tombstones"))
    }
}

impl OptionalFromMessage for Bytes {
    fn optional_from_message(context: &MessageContext) -> Result<Option<Self>, Rejection> {
        Ok(context.message().payload.clone())
    }
}

/// The id that the inbox keeps for this message.
impl FromMessage for MessageId {
    fn from_message(context: &MessageContext) -> Result<Self, Rejection> {
        Ok(context.id())
    }
}

/// All headers.
impl FromMessage for Headers {
    fn from_message(context: &MessageContext) -> Result<Self, Rejection> {
        Ok(context.message().headers.clone())
    }
}

/// A shared value that the dispatcher was built with. A dispatcher without it refuses to start.
///
/// Do not put a pool here to write with: what is written outside the transaction is not undone with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State<T>(pub T);

impl<T: Clone + Send + Sync + 'static> FromMessage for State<T> {
    fn from_message(context: &MessageContext) -> Result<Self, Rejection> {
        let missing = || Rejection::new(format!("the dispatcher has no state of type `{}`", std::any::type_name::<T>()));
        context.state().map(Self).ok_or_else(missing)
    }

    fn requires(requirements: &mut Requirements) {
        requirements.state::<T>();
    }
}
