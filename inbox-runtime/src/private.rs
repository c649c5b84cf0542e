//! What generated code and the sealed traits name. Not for users; no stability.

pub use inventory;

pub use core::time::Duration;
pub use std::{
    boxed::Box,
    option::Option::{self, None, Some},
    result::Result::{self, Err, Ok},
    string::String,
    vec::Vec,
};

pub use futures_core::future::BoxFuture;

#[cfg(feature = "_failpoints")]
pub use crate::engine::heart::{
    left_out::{flushes_held, hold_flushes, skip_flushes, trust_any_session, trust_duplicates},
    probe::{POINTS, set_probe},
};
pub use crate::{
    engine::{
        contract::{
            database::{
                Claim, Claimed, ClaimedMany, CommitGuard, DeadLetterRow, Dialect, Flushes, Guarded, InboxDatabase, Recorded, SqlFault,
            },
            trip::{End, Ended, Level, Next, Trip},
        },
        heart::{
            consumer::{
                AnyConsumer, Consumer, Facts, Invoke, InvokeBatch, Location, Registration, TransactionParameter, conclude, conclude_each,
                extract, extract_each, extract_shared, require,
            },
            context::{MessageContext, Requirements},
            direct::{Called, direct, direct_of_batch},
            inbox::AsInbox,
        },
    },
    vocabulary::{
        config::{Isolation, Options},
        error::{BatchFault, Fault, ProcessError},
        id::MessageId,
        outcome::{BatchProof, BatchResult, HandlerResult, Outcome, Proof, Proven},
    },
};
