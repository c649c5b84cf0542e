//! What a session that a worker keeps is told and answers: whole strings, with BEGIN and COMMIT in them.

use std::time::Duration;

use super::database::{Claim, Claimed};
use crate::vocabulary::config::Isolation;

/// What becomes of the transaction that the session has open, first of all.
#[doc(hidden)]
#[derive(Debug)]
pub enum End<'a, M> {
    /// None is open.
    Nothing,
    /// Nothing of it is to stay.
    Rollback,
    /// It is proven to be the claim's, and committed. `by_text`: without what the session was made ready with, which a body may have thrown away.
    Commit { mark: &'a M, level: Level, by_text: bool },
    /// It met a duplicate. A commit of it flushes all that was committed before.
    Barrier,
}

impl<M> Clone for End<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for End<'_, M> {}

/// Whether a commit waits for the disk.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// It does.
    Durable,
    /// A later one of the same session does, before anything is told.
    Later,
}

/// What follows in the same string: a BEGIN, and the claim of the next message.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Next<'a> {
    pub claim: Claim<'a>,
    pub isolation: Option<Isolation>,
    /// Whether the transaction that ends before it has the same isolation.
    pub alike: bool,
    /// How long the claim may wait for somebody else's, and the answer to the end with it.
    pub wait: Duration,
}

/// The answers, told apart by their position in the string, never by what an error says.
#[doc(hidden)]
#[derive(Debug)]
pub struct Trip<M> {
    pub ended: Ended,
    /// `None` where it was not asked for, or not reached.
    pub claimed: Option<Result<Claimed<M>, sqlx::Error>>,
    /// Whether a transaction is open now, in whatever state.
    pub open: bool,
    /// The session is not to be used any more.
    pub broken: bool,
}

#[doc(hidden)]
#[derive(Debug)]
pub enum Ended {
    /// As it was asked for.
    Done,
    /// The database had given up the transaction; nothing of it is applied.
    Aborted,
    /// It was not the claim's any more.
    Escaped,
    /// The answer to COMMIT proves that nothing was committed.
    Refused(sqlx::Error),
    /// Not committed: something else went wrong before.
    Lost(sqlx::Error),
    /// COMMIT was sent, and its answer never came.
    Unknown(sqlx::Error),
}

impl<M> Trip<M> {
    /// One that went wrong at its end, in a session that is of no more use.
    pub(crate) const fn failed(ended: Ended) -> Self {
        Self { ended, claimed: None, open: true, broken: true }
    }
}
