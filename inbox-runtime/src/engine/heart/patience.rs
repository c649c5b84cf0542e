//! How often, and when, the same message is attempted again within one call.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    inbox::Inbox,
    process::{Finished, Order, Work},
};
use crate::{
    engine::contract::database::{InboxDatabase, SqlFault},
    vocabulary::{backoff::Backoff, error::ProcessError},
};

/// Before an attempt that follows a serialization failure.
const CONFLICT: Backoff = Backoff::new(Duration::from_millis(4), Duration::from_millis(250));
/// Before an attempt that is to find out what became of a COMMIT.
const SETTLE: Backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(500));

pub(super) enum Next<V, E> {
    Finished(Finished<V, E>),
    Again(Duration),
}

/// How often the same message is attempted within one call.
pub(super) struct Patience {
    conflicts: u32,
    settle_timeout: Duration,
    /// Since when an unknown commit is being settled, and what its answer was lost to.
    unknown: Option<(Instant, sqlx::Error)>,
    settles: u32,
    repeats: u32,
}

impl Patience {
    pub(super) fn new<DB: InboxDatabase>(inbox: &Inbox<DB>) -> Self {
        let options = &inbox.shared.options;
        Self { conflicts: options.conflict_retries, settle_timeout: options.settle_timeout, unknown: None, settles: 0, repeats: 0 }
    }

    pub(super) fn judge<DB: InboxDatabase, W: Work<DB>>(
        &mut self,
        order: &Order,
        result: Finished<W::Value, W::Error>,
        work: &W,
    ) -> Next<W::Value, W::Error> {
        match result {
            Err(ProcessError::Unknown(error)) => {
                tracing::warn!(consumer = order.name, id = %order.id, %error, "the answer to a COMMIT was lost; claiming again to find out");
                let since = self.unknown.take().map_or_else(Instant::now, |(since, _)| since);
                self.unknown = Some((since, error));
                self.settle()
            }
            // An answer that says nothing about the COMMIT before.
            Err(ProcessError::Database(_) | ProcessError::InFlight | ProcessError::Conflict(_)) if self.unknown.is_some() => self.settle(),
            Err(ProcessError::Conflict(_)) if self.conflicts > 0 && work.ready() => self.repeat(),
            Err(ProcessError::Handler(e)) if self.conflicts > 0 && work.ready() && is_conflict::<DB, W>(&e) => self.repeat(),
            // What is asked again after an unknown outcome and fails otherwise did not commit before: the claim was free.
            result => Next::Finished(result),
        }
    }

    /// The outcome of a COMMIT is not known yet: that outlives the call only when time runs out.
    fn settle<V, E>(&mut self) -> Next<V, E> {
        match self.unknown.take() {
            Some((since, error)) if since.elapsed() >= self.settle_timeout => Next::Finished(Err(ProcessError::Unknown(error))),
            unknown => {
                self.unknown = unknown;
                self.settles += 1;
                Next::Again(SETTLE.after(self.settles))
            }
        }
    }

    fn repeat<V, E>(&mut self) -> Next<V, E> {
        self.conflicts -= 1;
        self.repeats += 1;
        Next::Again(CONFLICT.after(self.repeats))
    }
}

fn is_conflict<DB: InboxDatabase, W: Work<DB>>(error: &W::Error) -> bool {
    W::sql_error(error).is_some_and(|e| DB::read(e) == SqlFault::Conflict)
}
