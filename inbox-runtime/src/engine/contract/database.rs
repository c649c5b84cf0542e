use std::{collections::HashSet, future::Future, num::NonZeroU16, time::Duration};

use sqlx::{Database, Pool, SqlStr, pool::PoolConnection};
use uuid::Uuid;

use super::trip::{End, Next, Trip};
use crate::vocabulary::{
    config::{Isolation, Options},
    error::BoxError,
};

/// A database that can hold the inbox: `sqlx::Postgres` with the feature `postgres`, `sqlx::Sqlite` with `sqlite`.
///
/// Sealed: the order of the steps is the guarantee, and each database needs its own way to prove it.
pub trait InboxDatabase: Dialect {}

/// The steps of the heart in one database's words. Each is a single await, so that the heart can bound it.
#[doc(hidden)]
pub trait Dialect: Database {
    /// SQL that depends on the options, written once.
    type Sql: Send + Sync + 'static;
    /// What it takes to cut the server-side work of a body short.
    type Watch: Send + Sync;
    /// What a session that a worker keeps has been made ready with.
    type Kept: Send + Sync;
    /// How a session is known again.
    type Seal: Send + Sync;
    /// What proves later that the claim is still part of the open transaction.
    type Mark: Send + Sync;

    fn sql(options: &Options) -> Self::Sql;

    fn begin(isolation: Option<Isolation>) -> SqlStr;

    /// Before BEGIN.
    fn arm(conn: &mut Self::Connection) -> impl Future<Output = Result<Self::Watch, sqlx::Error>> + Send;

    /// One INSERT for the name and its aliases, and what a duplicate has to know.
    fn claim(
        conn: &mut Self::Connection,
        sql: &Self::Sql,
        claim: &Claim<'_>,
    ) -> impl Future<Output = Result<Claimed<Self::Mark>, sqlx::Error>> + Send;

    /// How many sessions at most are of use to a runner; `None`: as many as it likes.
    const WORKERS: Option<NonZeroU16>;

    /// Makes ready what a worker's session is to be talked to with, inside a transaction of its own.
    fn keep(conn: &mut Self::Connection, sql: &Self::Sql) -> impl Future<Output = Result<Self::Kept, sqlx::Error>> + Send;

    /// In a session that a worker keeps: ends what stands open, undoes what bodies have left in the session (`reset`), begins and claims anew.
    fn trip(
        conn: &mut Self::Connection,
        sql: &Self::Sql,
        kept: &Self::Kept,
        end: End<'_, Self::Mark>,
        reset: bool,
        next: Option<Next<'_>>,
    ) -> impl Future<Output = Trip<Self::Mark>> + Send;

    /// Begins and claims for many of one consumer, sorted by id: the mark, and the ids of those that are fresh, if any is.
    fn claim_many(
        conn: &mut Self::Connection,
        sql: &Self::Sql,
        claims: &[Claim<'_>],
        isolation: Option<Isolation>,
        wait: Duration,
    ) -> impl Future<Output = Result<Option<ClaimedMany<Self::Mark>>, sqlx::Error>> + Send;

    /// Where one commit that waits for the disk, and makes those before it durable as well, is made.
    const FLUSHES: Flushes;

    /// Makes a session ready to flush, and known again: behind a proxy another may answer.
    fn seal(conn: &mut Self::Connection, sql: &Self::Sql) -> impl Future<Output = Result<Self::Seal, sqlx::Error>> + Send;

    /// A commit that waits for the disk, in the sealed session and no other.
    fn flush(conn: &mut Self::Connection, sql: &Self::Sql, seal: &Self::Seal) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// The session as it was.
    fn unseal(conn: &mut Self::Connection, sql: &Self::Sql, seal: &Self::Seal) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Stops what the body has running on the server. The body's future is gone already; the connection is still ours.
    fn cut(pool: &Pool<Self>, watch: &Self::Watch, mark: &Self::Mark) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// Whether the transaction that holds the claim is open and healthy; if so, its commit is made a durable one.
    /// `failed`: the body returned an error, panicked or was cut.
    fn guard(conn: &mut Self::Connection, sql: &Self::Sql, mark: &Self::Mark, failed: bool) -> impl Future<Output = Guarded> + Send;

    /// What became of the claim's transaction once sqlx's own ROLLBACK, which it has still to send, is through: aborted or escaped.
    fn fate(conn: &mut Self::Connection, mark: &Self::Mark) -> impl Future<Output = Guarded> + Send;

    /// Puts each reply into its claimed row; the number of rows that took one. All are of one consumer.
    fn record_replies(
        conn: &mut Self::Connection,
        sql: &Self::Sql,
        replies: &[(Claim<'_>, String)],
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// Makes the next COMMIT of this transaction one that flushes everything committed before it.
    fn barrier(conn: &mut Self::Connection, sql: &Self::Sql) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Undoes `keep` in a session that is at rest, and begins by text, past sqlx's own count.
    fn release(conn: &mut Self::Connection, sql: &Self::Sql, kept: &Self::Kept) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Ends whatever transaction is open, by its text, past sqlx's own count.
    fn force_rollback(conn: &mut Self::Connection) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Takes back what a body may have left in the session, and waits for whatever sqlx still had to send.
    fn reset(conn: &mut Self::Connection, sql: &Self::Sql) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// What an error of ours or of the body says.
    fn read(error: &sqlx::Error) -> SqlFault;

    /// Whether an error that COMMIT was answered with proves that nothing was committed.
    fn refused(error: &sqlx::Error) -> bool;

    /// Brings the schema up to date; several processes may do it at once.
    fn migrate(pool: &Pool<Self>, options: &Options) -> impl Future<Output = Result<(), MigrateError>> + Send;

    /// All that is wrong with the inbox and its server, as texts that say what to do.
    fn verify(
        conn: &mut PoolConnection<Self>,
        options: &Options,
        sql: &Self::Sql,
    ) -> impl Future<Output = Result<Vec<String>, sqlx::Error>> + Send;

    /// Inserts a dead letter within the transaction that is open.
    fn store_dead_letter(
        conn: &mut Self::Connection,
        sql: &Self::Sql,
        letter: &DeadLetterRow<'_>,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

/// A database that can refuse a COMMIT which is not the heart's.
#[doc(hidden)]
pub trait CommitGuard: Dialect {
    fn install_commit_guard(pool: &Pool<Self>, options: &Options) -> impl Future<Output = Result<(), MigrateError>> + Send;
}

/// Which session makes a commit that covers those before it.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flushes {
    /// One next to the workers', for all of them.
    Aside,
    /// The worker's own, between its transactions: there is one writer.
    Between,
}

/// What to claim, and for whom.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// The consumer's name and its aliases, sorted, so that two processes lock in one order. All pass `is_consumer_name`.
    pub names: &'a [&'static str],
    /// The consumer's own name: the row that takes the reply.
    pub name: &'static str,
    pub id: Uuid,
    pub fingerprint: Option<i64>,
}

#[doc(hidden)]
#[derive(Debug)]
pub enum Claimed<M> {
    Fresh(M),
    Duplicate(Recorded),
}

/// The claim that many share, and the ids of those that are fresh.
#[doc(hidden)]
pub type ClaimedMany<M> = (M, HashSet<Uuid>);

/// What the row of a duplicate holds, read in a later statement than the claim.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Recorded {
    pub reply: Option<String>,
    pub fingerprint: Option<i64>,
    /// Whether the row is known to be on disk (and on the synchronous standbys).
    pub durable: bool,
}

#[doc(hidden)]
#[derive(Debug)]
pub enum Guarded {
    /// The claim is in the open, healthy transaction.
    Sound,
    /// The database has given up the transaction; nothing of it can be committed.
    Aborted,
    /// The body ended the transaction that held the claim.
    Escaped,
    /// The connection did not answer.
    Lost(sqlx::Error),
}

#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqlFault {
    /// A serialization failure or a deadlock: the attempt may be repeated at once.
    Conflict,
    /// The bounded wait of a claim ran out.
    InFlight,
    /// Somebody else is writing (SQLite): later.
    Busy,
    /// The transaction had been given up before, by an error that nobody returned.
    Aborted,
    /// The session is not what it should be (its prepared statements are gone, it is read only).
    BadSession,
    Other,
}

/// A dead letter as the database takes it: all text is free of NUL, bytes are bytes.
#[doc(hidden)]
#[derive(Debug)]
pub struct DeadLetterRow<'a> {
    pub consumer: Option<&'a str>,
    pub id: Option<Uuid>,
    pub reason: &'static str,
    pub error: String,
    pub attempts: i32,
    pub source: String,
    pub transport_id: Option<String>,
    pub topic: String,
    pub key: Option<&'a [u8]>,
    pub headers: String,
    pub payload: Option<&'a [u8]>,
}

/// Why the schema could not be brought up to date.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// The database refused or was out of reach.
    #[error("the inbox schema could not be brought up to date: {0}")]
    Database(#[from] sqlx::Error),
    /// A migration that was applied here differs from the one in this version of the crate.
    #[error("migration {version} of the inbox was applied with other contents than this version ships; was its file edited?")]
    Changed {
        /// The number of the migration.
        version: i64,
    },
    /// The database was migrated by a newer version of the crate.
    #[error("the inbox schema is at version {found}, this crate knows versions up to {known}; update the crate")]
    Newer {
        /// What the database says.
        found: i64,
        /// The newest that this crate ships.
        known: i64,
    },
}
