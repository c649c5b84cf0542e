// Its examples need all three.
#![cfg_attr(all(feature = "postgres", feature = "sqlite", feature = "memory"), doc = include_str!("../README.md"))]
#![cfg_attr(
    not(all(feature = "postgres", feature = "sqlite", feature = "memory")),
    doc = "A message handler that may be delivered many times and applies its effect once. The README has the whole text."
)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
pub mod broker;
mod database;
mod engine;
mod vocabulary;

#[cfg(feature = "postgres")]
#[cfg_attr(docsrs, doc(cfg(feature = "postgres")))]
pub use database::postgres::pool as postgres;
#[cfg(feature = "sqlite")]
#[cfg_attr(docsrs, doc(cfg(feature = "sqlite")))]
pub use database::sqlite::pool as sqlite;

pub use bytes::Bytes;
#[doc = include_str!("../docs/idempotent_consumer.md")]
pub use inbox_macros::idempotent_consumer;
/// Stops a [`Runner`]: tokio-util's own.
pub use tokio_util::sync::CancellationToken;
pub use uuid::Uuid;

pub use crate::{
    engine::{
        contract::database::{InboxDatabase, MigrateError},
        heart::{
            consumer::{Location, Registration},
            context::{MessageContext, Requirements},
            extract::{FromMessage, Header, Json, Key, NamedHeader, OptionalFromMessage, State},
            inbox::{AsInbox, Inbox, InboxBuilder},
            registry::{StartError, StartProblem},
        },
        services::{
            dispatch::{
                Dispatcher,
                builder::{BuildError, DispatcherBuilder},
                outcome::{ConsumerFailure, Dispatched},
                route::Route,
            },
            intake::{Intake, Mismatch, Unmatched},
            runner::{RunError, Runner},
        },
    },
    vocabulary::{
        config::{CommitLevel, Durability, InvalidIdentifier, Isolation},
        error::{BoxError, FailureKind, Fault, PanicPayload, ProcessError, Rejection, Unsound},
        headers::{HeaderError, HeaderProblem, Headers},
        id::{InvalidId, MessageId},
        identity::{EventTypeFrom, IdFrom, NoId},
        message::Message,
        outcome::{BatchResult, HandlerResult, Outcome, Reply},
    },
};
