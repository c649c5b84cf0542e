use std::{
    any::Any,
    borrow::Cow,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Any error, as handlers and brokers give them.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a message was not applied. The transaction is rolled back unless the variant says otherwise, and nothing may be acked.
///
/// `E` is the handler's own error. What to do next is in [`ProcessError::kind`].
#[derive(Debug)]
#[non_exhaustive]
pub enum ProcessError<E> {
    /// The handler returned an error.
    Handler(E),
    /// The body panicked. Its payload can be handed to [`std::panic::resume_unwind`].
    Panicked(PanicPayload),
    /// The body ran longer than its timeout; its work on the server was cancelled too.
    TimedOut(Duration),
    /// The caller went away, or the runtime is shutting down.
    Cancelled,
    /// The body returned `Ok`, but one of its statements had failed and the database had given up the transaction.
    SwallowedSqlError,
    /// The body left a nested transaction open (it was forgotten, or leaked), so that a commit would not have been one.
    NestedTransactionLeft,
    /// The body ended the transaction itself (`COMMIT`, `ROLLBACK`, `PREPARE TRANSACTION` as text; or it cancelled a nested `begin()`, and went on,
    /// where sqlx 0.9.0 had rolled everything back), so that its effect and the
    /// inbox row are no longer one commit. Part of its effect may be in the database. Never retry: the code is wrong.
    TransactionEscaped,
    /// Another delivery of the same message is being processed, and did not end within the bounded wait.
    InFlight,
    /// The database refused the commit (a deferred constraint, say). Nothing was applied.
    CommitRefused(sqlx::Error),
    /// Serialization failures or deadlocks, more often than is retried inside, or where the body cannot be run again: in a direct call its
    /// arguments are gone. Nothing was applied: call again with the same id.
    Conflict(sqlx::Error),
    /// The database could not be asked: connection lost, pool exhausted, server down, wrong privileges. Nothing was applied.
    Database(sqlx::Error),
    /// COMMIT was sent and its answer never came, and claiming again did not decide it in time. It may be applied: the next
    /// delivery of the same id finds out, and is safe in both cases.
    Unknown(sqlx::Error),
    /// The answer to an earlier COMMIT was lost, claiming again showed that it had not happened, and the body cannot be run
    /// again with the same arguments. Nothing was applied: call again with the same id.
    NotCommitted,
    /// The reply could not be written as JSON (rolled back), or the recorded one could not be read (applied earlier).
    Reply(serde_json::Error),
    /// The inbox cannot be trusted as it stands; see the text.
    Unsound(Arc<Unsound>),
    /// An earlier message made this consumer escape its transaction; it takes no more until the process starts anew.
    Halted,
}

/// What a [`ProcessError`] asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// The handler failed: try again later, and count the attempt.
    Failed,
    /// Not the message's fault: try again later, without counting.
    Transient,
    /// Trying again cannot help: set it aside.
    Permanent,
    /// The consumer's code is wrong and has to stop.
    Halting,
}

impl<E> ProcessError<E> {
    /// What to do about it. A handler's own error counts as [`FailureKind::Failed`].
    pub const fn kind(&self) -> FailureKind {
        match self {
            Self::Handler(_)
            | Self::Panicked(_)
            | Self::TimedOut(_)
            | Self::SwallowedSqlError
            | Self::NestedTransactionLeft
            | Self::CommitRefused(_) => FailureKind::Failed,
            Self::Cancelled
            | Self::InFlight
            | Self::Conflict(_)
            | Self::Database(_)
            | Self::Unknown(_)
            | Self::NotCommitted
            | Self::Unsound(_)
            | Self::Halted => FailureKind::Transient,
            Self::Reply(_) => FailureKind::Permanent,
            Self::TransactionEscaped => FailureKind::Halting,
        }
    }
}

impl<E> ProcessError<E> {
    /// The same, with another error of the handler's.
    pub(crate) fn map<F>(self, map: impl FnOnce(E) -> F) -> ProcessError<F> {
        match self {
            Self::Handler(e) => ProcessError::Handler(map(e)),
            Self::Panicked(panic) => ProcessError::Panicked(panic),
            Self::TimedOut(after) => ProcessError::TimedOut(after),
            Self::Cancelled => ProcessError::Cancelled,
            Self::SwallowedSqlError => ProcessError::SwallowedSqlError,
            Self::NestedTransactionLeft => ProcessError::NestedTransactionLeft,
            Self::TransactionEscaped => ProcessError::TransactionEscaped,
            Self::InFlight => ProcessError::InFlight,
            Self::CommitRefused(e) => ProcessError::CommitRefused(e),
            Self::Conflict(e) => ProcessError::Conflict(e),
            Self::Database(e) => ProcessError::Database(e),
            Self::Unknown(e) => ProcessError::Unknown(e),
            Self::NotCommitted => ProcessError::NotCommitted,
            Self::Reply(e) => ProcessError::Reply(e),
            Self::Unsound(e) => ProcessError::Unsound(e),
            Self::Halted => ProcessError::Halted,
        }
    }
}

impl<E: fmt::Display> fmt::Display for ProcessError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Alternate: where an error can tell what caused it (`anyhow::Error`, what a dispatcher is given), it does.
            Self::Handler(e) => write!(f, "the handler failed: {e:#}"),
            Self::Panicked(panic) => write!(f, "the handler panicked: {}", panic.text()),
            Self::TimedOut(after) => write!(f, "the handler did not end within {after:?}"),
            Self::Cancelled => f.write_str("the caller went away before the handler ended"),
            Self::SwallowedSqlError => f.write_str(
                "the handler returned `Ok` after a failed statement, and the database had given up the transaction; \
                 return the error, or put the statement into a nested transaction (`tx.begin()`)",
            ),
            Self::NestedTransactionLeft => {
                f.write_str("the handler left a nested transaction open; commit it, or let it roll back, before returning")
            }
            Self::TransactionEscaped => f.write_str(
                "the handler ended the inbox transaction itself; remove every COMMIT, ROLLBACK and PREPARE TRANSACTION from its SQL, cancel no \
                 `tx.begin()` (by a timeout or a select! around it), and check by hand what it has applied",
            ),
            Self::InFlight => f.write_str("another delivery of this message is still being processed"),
            Self::CommitRefused(e) => write!(f, "the database refused the commit: {e}"),
            Self::Conflict(e) => write!(f, "too many serialization failures: {e}"),
            Self::Database(e) => write!(f, "the database could not be used: {e}"),
            Self::Unknown(e) => write!(f, "the outcome of the commit is unknown until the message is claimed again: {e}"),
            Self::NotCommitted => f.write_str("the commit did not happen; call again with the same message id"),
            Self::Reply(e) => write!(f, "the reply could not be stored or read back: {e}"),
            Self::Unsound(e) => write!(f, "{e}"),
            Self::Halted => f.write_str("this consumer has stopped because it ended its transaction itself; mend it and restart"),
        }
    }
}

/// `source` is empty: the text holds the cause, since `E` need not be an error type (`anyhow::Error` is none).
impl<E: fmt::Debug + fmt::Display> std::error::Error for ProcessError<E> {}

/// What a panicking body threw.
///
/// A payload need not be `Sync`, but an error has to be, or it fits into no `Box<dyn Error + Send + Sync>`: so it is behind a lock.
pub struct PanicPayload {
    text: Cow<'static, str>,
    payload: Mutex<Box<dyn Any + Send>>,
}

impl PanicPayload {
    pub(crate) fn new(payload: Box<dyn Any + Send>) -> Self {
        let text = payload.downcast_ref::<&'static str>().map(|text| Cow::Borrowed(*text));
        let text = text.or_else(|| payload.downcast_ref::<String>().map(|text| Cow::Owned(text.clone())));
        Self { text: text.unwrap_or(Cow::Borrowed("(no message)")), payload: Mutex::new(payload) }
    }

    /// The panic's message, if it had one.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.text)
    }

    /// For [`std::panic::resume_unwind`].
    #[must_use]
    pub fn into_inner(self) -> Box<dyn Any + Send> {
        self.payload.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for PanicPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PanicPayload").field(&self.text()).finish()
    }
}

/// Why a message could not become a handler's arguments. Permanent: the same bytes fail again.
#[derive(Debug)]
pub struct Rejection(BoxError);

impl Rejection {
    /// A rejection with its cause; a `&str` or a `String` will do.
    pub fn new(cause: impl Into<BoxError>) -> Self {
        Self(cause.into())
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Rejection {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// What a handler can fail with when a dispatcher calls it.
#[derive(Debug)]
pub enum Fault {
    /// An extractor refused the message; the body did not run.
    Rejected(Rejection),
    /// The body returned this error.
    Failed(BoxError),
    /// Its reply cannot be written as JSON.
    Reply(serde_json::Error),
}

/// Why a body that takes many messages has not done its work.
#[doc(hidden)]
#[derive(Debug)]
pub enum BatchFault<E> {
    /// These of them, by their place, are the reason: the first, and others.
    These((usize, E), Vec<(usize, E)>),
    /// Any of them may be.
    Any(E),
}

impl<E> BatchFault<E> {
    /// Where there was one message.
    pub(crate) fn of_one(self) -> E {
        match self {
            Self::These(first, _) => first.1,
            Self::Any(fault) => fault,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected(e) => write!(f, "the message cannot be decoded: {e}"),
            Self::Failed(e) => write!(f, "{e}"),
            Self::Reply(e) => write!(f, "the reply cannot be written as JSON: {e}"),
        }?;
        // With `{:#}` what caused it follows.
        if f.alternate() { f.write_str(&causes(self)) } else { Ok(()) }
    }
}

impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Rejected(e) => e.source(),
            Self::Failed(e) => e.source(),
            Self::Reply(e) => e.source(),
        }
    }
}

/// What caused an error, without saying one thing twice: `: cause: its cause`.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let (mut text, mut said) = (String::new(), error.to_string());
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !said.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        said = cause_text;
        next = cause.source();
    }
    text
}

/// Why the inbox cannot be trusted: "no row returned" is a verdict only on a sound table.
#[derive(Debug)]
#[non_exhaustive]
pub struct Unsound {
    /// Each thing that is wrong, with what to do about it.
    pub problems: Vec<String>,
}

impl fmt::Display for Unsound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the inbox cannot be trusted: ")?;
        f.write_str(&self.problems.join("; "))
    }
}

impl std::error::Error for Unsound {}
