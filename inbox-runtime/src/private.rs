//! What generated code and the sealed traits name. Not for users; no stability.

pub use inventory;

pub use core::time::Duration;
pub use std::{
    boxed::Box,
    option::Option::{self, None, Some},
    result::Result::{self, Err, Ok},
    string::String,
};

pub use futures_core::future::BoxFuture;

#[cfg(feature = "_failpoints")]
pub use crate::engine::heart::probe::{POINTS, set_probe, skip_flushes};
pub use crate::{
    engine::{
        contract::{
            database::{Claim, Claimed, CommitGuard, DeadLetterRow, Dialect, Guarded, InboxDatabase, Recorded, SqlFault},
            trip::{End, Ended, Level, Next, Trip},
        },
        heart::{
            consumer::{AnyConsumer, Consumer, Facts, Invoke, Location, Registration, TransactionParameter, conclude, extract, require},
            context::{MessageContext, Requirements},
            direct::{Called, direct},
            inbox::AsInbox,
        },
    },
    vocabulary::{
        config::{Isolation, Options},
        error::{Fault, ProcessError},
        id::MessageId,
        outcome::{HandlerResult, Outcome, Proof, Proven},
    },
};
