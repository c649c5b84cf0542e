use std::marker::PhantomData;

use serde::{Serialize, de::DeserializeOwned};

use super::error::{BoxError, Fault};

/// What became of a message: its effect is in the database once, in both cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Outcome<T> {
    /// The body ran and its transaction is committed.
    Applied(T),
    /// This consumer had applied this id before; the body did not run. Holds the recorded reply, if the consumer replies.
    Duplicate(T),
}

impl<T> Outcome<T> {
    /// The value, whichever way it came.
    pub fn into_inner(self) -> T {
        match self {
            Self::Applied(value) | Self::Duplicate(value) => value,
        }
    }

    /// Whether this very call applied the effect.
    #[must_use]
    pub const fn is_applied(&self) -> bool {
        matches!(self, Self::Applied(_))
    }
}

/// An answer that is stored in the inbox row and given back to every duplicate.
///
/// It is kept as JSON, so `T` has to survive a round trip through `serde_json`. On PostgreSQL it is a `jsonb` column, which
/// cannot hold the character NUL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply<T>(pub T);

/// What an idempotent consumer may return: `Result<(), E>` or `Result<Reply<T>, E>`.
#[diagnostic::on_unimplemented(
    message = "an idempotent consumer cannot return `{Self}`",
    label = "expected `Result<T, E>`, where `E` is a `std::error::Error + Send + Sync + 'static`",
    note = "`T` is `()`, or `Reply<_>` of a type that serde can write and read when the caller needs an answer that duplicates get too"
)]
pub trait HandlerResult: Sized + Send + 'static {
    /// What the caller gets: `()` or the `T` of `Reply<T>`.
    type Value: Send + 'static;
    /// The handler's own error.
    type Error: Into<BoxError> + Send + 'static;

    #[doc(hidden)]
    type Proof: Proof<Result = Self>;
    #[doc(hidden)]
    fn proof() -> Self::Proof;
    #[doc(hidden)]
    fn split(self) -> Result<Self::Value, Self::Error>;
    #[doc(hidden)]
    fn encode(value: &Self::Value) -> Result<Option<String>, serde_json::Error>;
    #[doc(hidden)]
    fn decode(recorded: Option<&str>) -> Result<Self::Value, serde_json::Error>;
}

/// Shows that a type is a result. The attribute asks for one as `<R as HandlerResult>::proof()`, so that a wrong `R` is the same error
/// at the same place each time, which rustc prints once; the bound of a generic function would add a note of its own.
#[doc(hidden)]
pub trait Proof {
    type Result: HandlerResult;
}

#[doc(hidden)]
#[derive(Debug)]
pub struct Proven<R>(PhantomData<fn() -> R>);

impl<R: HandlerResult> Proof for Proven<R> {
    type Result = R;
}

#[diagnostic::do_not_recommend]
impl<E: Into<BoxError> + Send + 'static> HandlerResult for Result<(), E> {
    type Value = ();
    type Error = E;
    type Proof = Proven<Self>;

    fn proof() -> Proven<Self> {
        Proven(PhantomData)
    }

    fn split(self) -> Self {
        self
    }

    fn encode((): &()) -> Result<Option<String>, serde_json::Error> {
        Ok(None)
    }

    fn decode(_recorded: Option<&str>) -> Result<(), serde_json::Error> {
        Ok(())
    }
}

#[diagnostic::do_not_recommend]
impl<T, E> HandlerResult for Result<Reply<T>, E>
where
    T: Serialize + DeserializeOwned + Send + 'static,
    E: Into<BoxError> + Send + 'static,
{
    type Value = T;
    type Error = E;
    type Proof = Proven<Self>;

    fn proof() -> Proven<Self> {
        Proven(PhantomData)
    }

    fn split(self) -> Result<T, E> {
        self.map(|reply| reply.0)
    }

    fn encode(value: &T) -> Result<Option<String>, serde_json::Error> {
        serde_json::to_string(value).map(Some)
    }

    fn decode(recorded: Option<&str>) -> Result<T, serde_json::Error> {
        // A row without a reply reads as `null`: right for `Reply<Option<_>>`, and a clear error for the rest.
        serde_json::from_str(recorded.unwrap_or("null"))
    }
}

/// What an idempotent consumer of batches may return: `Result<(), E>` or `Result<Vec<Reply<T>>, E>`, a reply for each message in their order.
#[diagnostic::on_unimplemented(
    message = "an idempotent consumer of batches cannot return `{Self}`",
    label = "expected `Result<(), E>` or `Result<Vec<Reply<_>>, E>`, where `E` is a `std::error::Error + Send + Sync + 'static`",
    note = "a batch has a reply for each of its messages, in their order"
)]
pub trait BatchResult: Sized + Send + 'static {
    /// What the same consumer returns for one message.
    type One: HandlerResult;

    #[doc(hidden)]
    type Proof: BatchProof<Result = Self>;
    #[doc(hidden)]
    fn proof() -> Self::Proof;
    /// Of one message. Panics where there is not one reply.
    #[doc(hidden)]
    fn one(self) -> Self::One;
    /// What each of so many messages is answered.
    #[doc(hidden)]
    fn each(self, messages: usize) -> Result<Vec<Option<String>>, Fault>;
}

/// See [`Proof`].
#[doc(hidden)]
pub trait BatchProof {
    type Result: BatchResult;
}

impl<R: BatchResult> BatchProof for Proven<R> {
    type Result = R;
}

#[diagnostic::do_not_recommend]
impl<E: Into<BoxError> + Send + 'static> BatchResult for Result<(), E> {
    type One = Self;
    type Proof = Proven<Self>;

    fn proof() -> Proven<Self> {
        Proven(PhantomData)
    }

    fn one(self) -> Self {
        self
    }

    fn each(self, messages: usize) -> Result<Vec<Option<String>>, Fault> {
        self.map_err(|e| Fault::Failed(e.into())).map(|()| vec![None; messages])
    }
}

#[diagnostic::do_not_recommend]
impl<T, E> BatchResult for Result<Vec<Reply<T>>, E>
where
    T: Serialize + DeserializeOwned + Send + 'static,
    E: Into<BoxError> + Send + 'static,
{
    type One = Result<Reply<T>, E>;
    type Proof = Proven<Self>;

    fn proof() -> Proven<Self> {
        Proven(PhantomData)
    }

    fn one(self) -> Self::One {
        self.map(|replies| {
            let count = replies.len();
            let one: Result<[Reply<T>; 1], _> = replies.try_into();
            let Ok([reply]) = one else { panic!("the body gave {count} replies for one message") };
            reply
        })
    }

    fn each(self, messages: usize) -> Result<Vec<Option<String>>, Fault> {
        let replies = self.map_err(|e| Fault::Failed(e.into()))?;
        if replies.len() != messages {
            let wrong = format!("the body gave {} replies for {messages} messages", replies.len());
            return Err(Fault::Reply(serde::ser::Error::custom(wrong)));
        }
        replies.into_iter().map(|Reply(value)| serde_json::to_string(&value).map(Some).map_err(Fault::Reply)).collect()
    }
}
