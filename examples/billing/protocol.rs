//! What goes through the pipes between broker and worker: one JSON text a line, a question from the worker, an answer to it.
//! The worker's first line from the broker is its [`Job`].

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::events::Event;

/// What a worker is to do, and on which database. Sent through the pipe, since it may hold a password.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) mode: Mode,
    pub(crate) url: String,
    /// On PostgreSQL.
    pub(crate) schema: Option<String>,
    /// The second store, which stands for Redis.
    pub(crate) marks: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Mode {
    Inbox,
    WithoutInbox,
    MarkAfterWork,
    MarkBeforeWork,
    AckFirst,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Question {
    Receive {
        most: u16,
    },
    Settle {
        tags: Vec<(u64, End)>,
        /// Not a broker's business, but a killed worker can tell nobody later: how often a consumer of this process has skipped.
        duplicates: u64,
    },
}

/// How a delivery ended.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum End {
    Done,
    DeadLettered,
    Again { after_ms: u64 },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Deliveries(Vec<Delivered>),
    /// For each, whether it was still held by this worker.
    Settled(Vec<bool>),
    /// There will be no more.
    Finished,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Delivered {
    pub(crate) tag: u64,
    pub(crate) attempt: u32,
    pub(crate) event: Event,
}
