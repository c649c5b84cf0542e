use std::{fmt, sync::Arc, time::Duration};

use sqlx::Pool;
use tokio::{sync::OnceCell, time::timeout};

use super::{
    in_flight::InFlight,
    known,
    task::{database_to_the_end, to_the_end},
};
use crate::{
    engine::contract::database::{CommitGuard, Dialect, InboxDatabase, MigrateError},
    vocabulary::{
        config::{CommitLevel, Identifier, InvalidIdentifier, Options},
        error::{ProcessError, Unsound},
    },
};

/// The inbox in one database: a pool, where the tables stand, and how long things may take. Cheap to clone.
///
/// A bare pool will do wherever an inbox is asked for; it stands for one with the defaults.
///
/// ```no_run
/// # #[cfg(feature = "postgres")]
/// # async fn example(pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use inbox_runtime::Inbox;
///
/// let inbox = Inbox::builder(pool).schema("billing").body_timeout(Duration::from_secs(30)).build()?;
/// inbox.migrate().await?;
/// inbox.verify().await?;
/// # Ok(())
/// # }
/// ```
pub struct Inbox<DB: InboxDatabase> {
    pool: Pool<DB>,
    pub(crate) shared: Arc<Shared<DB>>,
}

/// All but the pool, so that it can be kept for a pool without keeping the pool.
pub(crate) struct Shared<DB: Dialect> {
    pub(crate) options: Options,
    pub(crate) sql: DB::Sql,
    pub(crate) in_flight: InFlight,
    sound: OnceCell<()>,
}

impl<DB: InboxDatabase> Shared<DB> {
    pub(super) fn new(options: Options) -> Self {
        Self { sql: DB::sql(&options), options, in_flight: InFlight::default(), sound: OnceCell::new() }
    }
}

impl<DB: InboxDatabase> Inbox<DB> {
    /// The inbox of this pool with the defaults: tables in the schema `public` (SQLite: `main`), without a prefix.
    #[must_use]
    pub fn new(pool: &Pool<DB>) -> Self {
        Self { pool: pool.clone(), shared: known::shared_of(pool) }
    }

    /// An inbox with other settings.
    pub fn builder(pool: Pool<DB>) -> InboxBuilder<DB> {
        InboxBuilder { pool, options: Options::default(), schema: None, prefix: None }
    }

    /// The pool that it was made with.
    #[must_use]
    pub const fn pool(&self) -> &Pool<DB> {
        &self.pool
    }

    /// Creates the inbox's tables, or brings them up to date. Any number of processes may call it at once.
    ///
    /// The migrations keep their own record (`inbox_migrations`), apart from `sqlx::migrate!`'s. Whoever prefers their own tool
    /// applies the SQL files under `migrations/` instead.
    ///
    /// # Errors
    ///
    /// [`MigrateError`] when the database refuses or is newer than this crate. Nothing is half applied.
    pub async fn migrate(&self) -> Result<(), MigrateError> {
        let inbox = self.clone();
        let migrated = to_the_end(async move { DB::migrate(&inbox.pool, &inbox.shared.options).await }).await;
        migrated.unwrap_or(Err(MigrateError::Database(sqlx::Error::WorkerCrashed)))
    }

    /// Makes sure that the inbox can be trusted: a permanent table with exactly its unique key, no foreign trigger, rule or row
    /// security, a probe claim that returns its row (and is rolled back), and a server that flushes its commits.
    ///
    /// A dispatcher does this when it is built, a direct call on its first use of an inbox; a success is remembered.
    ///
    /// # Errors
    ///
    /// [`ProcessError::Unsound`] with everything that is wrong, or [`ProcessError::Database`].
    pub async fn verify(&self) -> Result<(), ProcessError<std::convert::Infallible>> {
        self.sound().await
    }

    /// Makes the database itself refuse a COMMIT that a body sends as text. Opt-in hardening, for PostgreSQL; safe to call again.
    ///
    /// It adds a deferred constraint trigger to the inbox which raises an error unless the last statement before the COMMIT was ours. A body that
    /// ends the transaction then applies nothing, instead of half of its work. What it does not cover: a body that says `SET CONSTRAINTS ALL
    /// IMMEDIATE` trips it (the attempt fails, nothing is applied), and rows can no longer be inserted by hand. Needs the owner of the table; every
    /// process that claims must run this version of the crate or a later one.
    ///
    /// # Errors
    ///
    /// [`MigrateError`] when the database refuses.
    pub async fn guard_commits(&self) -> Result<(), MigrateError>
    where
        DB: CommitGuard,
    {
        let inbox = self.clone();
        let installed = to_the_end(async move { DB::install_commit_guard(&inbox.pool, &inbox.shared.options).await }).await;
        installed.unwrap_or(Err(MigrateError::Database(sqlx::Error::WorkerCrashed)))
    }

    pub(crate) async fn sound<E>(&self) -> Result<(), ProcessError<E>> {
        let check = || async {
            let problems = database_to_the_end(problems(self.clone())).await.map_err(ProcessError::Database)?;
            if problems.is_empty() { Ok(()) } else { Err(ProcessError::Unsound(Arc::new(Unsound { problems }))) }
        };
        // Boxed: it is asked for every message, and answered once.
        match self.shared.sound.get() {
            Some(()) => Ok(()),
            None => Box::pin(self.shared.sound.get_or_try_init(check)).await.copied(),
        }
    }
}

async fn problems<DB: InboxDatabase>(inbox: Inbox<DB>) -> Result<Vec<String>, sqlx::Error> {
    let (options, mut conn) = (&inbox.shared.options, inbox.pool.acquire().await?);
    let verified = timeout(options.step_timeout, DB::verify(&mut conn, options, &inbox.shared.sql)).await;
    verified.unwrap_or_else(|late| {
        conn.close_on_drop();
        Err(sqlx::Error::Io(late.into()))
    })
}

impl<DB: InboxDatabase> Clone for Inbox<DB> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<DB: InboxDatabase> fmt::Debug for Inbox<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("database", &DB::NAME).field("options", &self.shared.options).finish_non_exhaustive()
    }
}

/// Settings of an [`Inbox`]; finish with [`InboxBuilder::build`].
#[must_use]
pub struct InboxBuilder<DB: InboxDatabase> {
    pool: Pool<DB>,
    options: Options,
    schema: Option<String>,
    prefix: Option<String>,
}

impl<DB: InboxDatabase> InboxBuilder<DB> {
    /// The schema that holds the tables. Default: `public`; on SQLite, which has none, `main` and nothing else.
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = Some(schema.into());
        self
    }

    /// Put in front of every table name: `billing_` makes `billing_inbox`. Default: none.
    pub fn table_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// How long a delivery waits for another one of the same message before it is "in flight, try later". Default: 2 s.
    ///
    /// In one process the wait takes no connection. Across processes PostgreSQL waits in the claim (`lock_timeout`, set for the
    /// claim alone); SQLite waits for its one writer as long as the connection's `busy_timeout` says.
    pub const fn claim_wait(mut self, wait: Duration) -> Self {
        self.options.claim_wait = wait;
        self
    }

    /// How long a body may run where its consumer has no `timeout` of its own. Default: no bound.
    ///
    /// When it passes, the body's future is dropped, its statement on the server is cancelled, and the transaction is rolled
    /// back. Begin, claim and commit are never cut by it.
    pub const fn body_timeout(mut self, timeout: Duration) -> Self {
        self.options.body_timeout = Some(timeout);
        self
    }

    /// How long each step of ours (begin, claim, guard, commit, rollback) may take before the connection is given up.
    /// Default: 30 s. A commit that takes longer has an unknown outcome, and is settled by claiming again.
    pub const fn step_timeout(mut self, timeout: Duration) -> Self {
        self.options.step_timeout = timeout;
        self
    }

    /// How long an unknown commit outcome is settled for in place, before the call gives up with
    /// [`ProcessError::Unknown`]. Default: 20 s.
    pub const fn settle_timeout(mut self, timeout: Duration) -> Self {
        self.options.settle_timeout = timeout;
        self
    }

    /// Whether the session is reset after each transaction whose body ran. Default: yes. PostgreSQL only.
    ///
    /// The reset is `CLOSE ALL; UNLISTEN *; RESET SESSION AUTHORIZATION; RESET ALL; SELECT pg_advisory_unlock_all(); DISCARD TEMP`: without
    /// it a cursor, a `SET ROLE`, a setting, an advisory lock or a temporary table of one body meets the next. A session whose prepared
    /// statements a body has changed by `PREPARE` or `DEALLOCATE` is closed. It also undoes what an `after_connect` hook
    /// has `SET`: put such settings into the connect options, which RESET returns to. It costs one round trip.
    pub const fn reset_session(mut self, reset: bool) -> Self {
        self.options.reset_session = reset;
        self
    }

    /// How far a commit has to reach, on PostgreSQL. Default: [`CommitLevel::On`].
    pub const fn commit_level(mut self, level: CommitLevel) -> Self {
        self.options.commit_level = level;
        self
    }

    /// Accepts a server that can lose acknowledged commits in a crash: PostgreSQL with `fsync = off`, SQLite with
    /// `synchronous` below FULL. Default: refused. For tests: a message acked on such a server can be lost.
    pub const fn allow_unsafe_durability(mut self, allow: bool) -> Self {
        self.options.allow_unsafe_durability = allow;
        self
    }

    /// The inbox.
    ///
    /// # Errors
    ///
    /// [`InvalidIdentifier`] when the schema or the prefix is not a plain identifier.
    pub fn build(mut self) -> Result<Inbox<DB>, InvalidIdentifier> {
        self.options.tables.schema = self.schema.map(Identifier::try_from).transpose()?;
        self.options.tables.prefix = self.prefix.map(Identifier::try_from).transpose()?;
        self.options.bound();
        Ok(Inbox { pool: self.pool, shared: Arc::new(Shared::new(self.options)) })
    }
}

impl<DB: InboxDatabase> fmt::Debug for InboxBuilder<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InboxBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}

/// What a consumer can be called with: an [`Inbox`], or a bare pool, which stands for one with the defaults.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no inbox in the database `{DB}`",
    label = "expected `sqlx::Pool<{DB}>` or `Inbox<{DB}>`",
    note = "a consumer is called with the pool of the database that its transaction belongs to"
)]
pub trait AsInbox<DB: InboxDatabase>: Send + Sync {
    /// A handle on that inbox.
    fn as_inbox(&self) -> Inbox<DB>;
}

impl<DB: InboxDatabase> AsInbox<DB> for Inbox<DB> {
    fn as_inbox(&self) -> Inbox<DB> {
        self.clone()
    }
}

impl<DB: InboxDatabase> AsInbox<DB> for Pool<DB> {
    fn as_inbox(&self) -> Inbox<DB> {
        Inbox::new(self)
    }
}
