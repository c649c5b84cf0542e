use std::{fmt, time::Duration};

/// The isolation level of a consumer's transactions.
///
/// Without one, the database's (or the role's) default holds. Under the two stricter levels a concurrent duplicate meets a
/// serialization failure instead of an empty claim; the attempt is then repeated, inside.
///
/// SQLite has one level, which is serializable: there every value is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Isolation {
    /// `READ COMMITTED`.
    ReadCommitted,
    /// `REPEATABLE READ`.
    RepeatableRead,
    /// `SERIALIZABLE`.
    Serializable,
}

/// How far a commit has to reach before it counts, on PostgreSQL. It is set inside each transaction, right before its
/// COMMIT, so that neither a role's default nor a body's `SET` decides it. Nothing weaker is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CommitLevel {
    /// `synchronous_commit = on`: flushed here, and on the synchronous standbys where there are some.
    #[default]
    On,
    /// `synchronous_commit = remote_apply`: also visible on the synchronous standbys.
    RemoteApply,
}

impl CommitLevel {
    #[cfg(feature = "postgres")]
    pub(crate) const fn sql(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::RemoteApply => "remote_apply",
        }
    }
}

/// When a runner's commits have to be on disk. In every case nothing is acked before it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// Each commit waits for the disk.
    #[default]
    Commit,
    /// Commits do not wait; acks do, for one commit that covers all before it. Not behind a transaction-pooling proxy, which hides restarts of the
    /// database: there it is [`Durability::Commit`].
    ///
    /// On SQLite it needs `journal_mode = wal`: the worker's session commits with `synchronous = NORMAL`, and with `FULL` once nothing else is to
    /// be done, after 64 messages, or after 5 ms; but an ack also waits for the body that runs. From its first use on each duplicate in this
    /// database waits for the disk, whoever meets it: a row in the inbox says so (`inbox.before_ack`), and stays.
    ///
    /// Much faster where a flush takes time, and each message keeps a transaction of its own. The price: others may see an effect that a crash
    /// of the *database* takes back, until the message comes again and applies it once more. So whatever leaves the database because of the
    /// effect (a relay, a reply, a journal of remote calls) has to make a durable commit of its own first, or wait for one.
    BeforeAck,
}

/// What an `Inbox` may be told.
#[derive(Debug, Clone)]
#[doc(hidden)]
pub struct Options {
    /// How long a claim waits for another delivery of the same message.
    pub(crate) claim_wait: Duration,
    /// How long a body may run; `None`: as long as it likes. A consumer's own `timeout` comes first.
    pub(crate) body_timeout: Option<Duration>,
    /// How long each of our own steps (begin, claim, guard, commit, rollback) may take before its connection is given up.
    pub(crate) step_timeout: Duration,
    /// How long an unknown commit outcome is settled for, in place.
    pub(crate) settle_timeout: Duration,
    /// How often a serialization failure is answered by another attempt, inside.
    pub(crate) conflict_retries: u32,
    /// Whether session state (roles, settings, advisory locks, temporary tables) is reset after each transaction.
    pub(crate) reset_session: bool,
    /// Whether direct calls run on sessions as a runner keeps them, so that our own tests can hold both paths to the same.
    #[cfg(feature = "_failpoints")]
    pub(crate) kept_sessions: bool,
    /// Whether a server that may lose commits in a crash is accepted (`fsync = off`; SQLite's `synchronous` below FULL).
    pub(crate) allow_unsafe_durability: bool,
    pub(crate) commit_level: CommitLevel,
    pub(crate) tables: Tables,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            claim_wait: Duration::from_secs(2),
            body_timeout: None,
            step_timeout: Duration::from_secs(30),
            settle_timeout: Duration::from_secs(20),
            conflict_retries: 10,
            reset_session: true,
            #[cfg(feature = "_failpoints")]
            kept_sessions: std::env::var_os("INBOX_TEST_PATH").is_some_and(|path| path == "kept"),
            allow_unsafe_durability: false,
            commit_level: CommitLevel::On,
            tables: Tables::default(),
        }
    }
}

impl Options {
    /// The longest time that any of them means: sums of several must fit a clock, and a server's own setting.
    const LONGEST: Duration = Duration::from_secs(7 * 24 * 60 * 60);

    /// Takes `Duration::MAX` and its like for what they mean.
    pub(crate) fn bound(&mut self) {
        for time in [&mut self.claim_wait, &mut self.step_timeout, &mut self.settle_timeout] {
            *time = Self::LONGEST.min(*time);
        }
    }
}

/// Where the inbox's tables stand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tables {
    pub(crate) schema: Option<Identifier>,
    pub(crate) prefix: Option<Identifier>,
}

#[cfg(any(feature = "postgres", feature = "sqlite"))]
impl Tables {
    pub(crate) fn prefix(&self) -> &str {
        self.prefix.as_ref().map_or("", Identifier::as_str)
    }
}

/// A plain SQL identifier: a letter or `_`, then letters, digits and `_`; it needs no escaping anywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identifier(String);

impl Identifier {
    /// PostgreSQL cuts identifiers after 63 bytes; the longest name that we put behind a prefix takes 25 of them.
    pub(crate) const MAX: usize = 38;

    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Identifier {
    type Error = InvalidIdentifier;

    fn try_from(text: String) -> Result<Self, InvalidIdentifier> {
        let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if starts && text.chars().all(good) && text.len() <= Self::MAX { Ok(Self(text)) } else { Err(InvalidIdentifier { found: text }) }
    }
}

/// A schema name or table prefix that is not a plain identifier.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidIdentifier {
    /// What was given.
    pub found: String,
}

impl fmt::Display for InvalidIdentifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (found, most) = (&self.found, Identifier::MAX);
        write!(f, "`{found}` cannot be a schema or a table prefix: write at most {most} letters, digits and `_`, not starting with a digit")
    }
}

impl std::error::Error for InvalidIdentifier {}

/// The longest consumer name, in bytes.
pub(crate) const MAX_NAME: usize = 128;

/// Whether a text may be a consumer name. The attribute checks the same at compile time.
pub(crate) fn is_consumer_name(name: &str) -> bool {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-');
    !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(good)
}
