use std::sync::Arc;

use crate::vocabulary::identity::{EventTypeFrom, IdFrom};

/// What a message that no consumer wants becomes. A decision, not an accident.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Unmatched {
    /// A dead letter, acked once it is committed.
    #[default]
    DeadLetter,
    /// Acked and forgotten.
    Ack,
}

/// What a duplicate becomes whose payload is not the one that was applied under its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Mismatch {
    /// Skipped like any duplicate, with a warning and a metric (`inbox_payload_mismatches_total`).
    #[default]
    Warn,
    /// A dead letter, with the same warning and metric.
    DeadLetter,
}

/// How a subscription's messages are read: where the id sits, above all.
///
/// ```
/// use inbox_runtime::{EventTypeFrom, IdFrom, Intake, Unmatched};
///
/// let intake = Intake::new("orders", IdFrom::header("event-id"))
///     .event_type(EventTypeFrom::header("event-type"))
///     .unmatched(Unmatched::Ack);
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Intake {
    /// Shared with every route of its messages.
    pub(crate) name: Arc<str>,
    pub(crate) id: IdFrom,
    pub(crate) event_type: Option<EventTypeFrom>,
    pub(crate) unmatched: Unmatched,
    pub(crate) mismatch: Mismatch,
    pub(crate) topics: Vec<String>,
}

impl Intake {
    /// The subscription's name (it stands in its dead letters and logs) and where its messages carry their id.
    pub fn new(name: impl Into<String>, id: IdFrom) -> Self {
        Self {
            name: Arc::from(name.into()),
            id,
            event_type: None,
            unmatched: Unmatched::default(),
            mismatch: Mismatch::default(),
            topics: Vec::new(),
        }
    }

    /// Where its messages carry their event type. Needed as soon as a consumer of its topics says `event = ".."`.
    pub fn event_type(mut self, from: EventTypeFrom) -> Self {
        self.event_type = Some(from);
        self
    }

    /// What becomes of a message that no consumer wants. Default: a dead letter.
    pub const fn unmatched(mut self, unmatched: Unmatched) -> Self {
        self.unmatched = unmatched;
        self
    }

    /// What becomes of a duplicate with another payload. Default: a warning.
    pub const fn mismatch(mut self, mismatch: Mismatch) -> Self {
        self.mismatch = mismatch;
        self
    }

    /// The topics that it brings, so that one which nobody wants is refused at the start. Default: not checked.
    pub fn topics<T: Into<String>>(mut self, topics: impl IntoIterator<Item = T>) -> Self {
        self.topics = topics.into_iter().map(Into::into).collect();
        self
    }
}
