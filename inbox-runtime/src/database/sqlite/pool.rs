//! Pools for SQLite that never hand out an open transaction.

use sqlx::{
    Connection, Executor,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

/// A pool of one connection, since SQLite has one writer, that hands out no open transactions.
///
/// sqlx 0.9.0 can return a connection inside a transaction (after a `begin()` that was cancelled, say); the hook ends what is open when a connection
/// comes back. Whoever holds a transaction of this pool and calls a consumer waits for itself, until the pool's `acquire_timeout`.
pub fn pool_options() -> SqlitePoolOptions {
    SqlitePoolOptions::new().max_connections(1).after_release(|conn, _| {
        Box::pin(async move {
            // Either may fail, on a session inside or outside of a transaction; what counts is that both are over then.
            let begun = conn.execute("BEGIN").await.is_ok();
            let ended = conn.execute("ROLLBACK").await.is_ok();
            conn.ping().await?;
            Ok(begun && ended)
        })
    })
}

/// Connect options that keep what is committed: WAL, `synchronous = FULL`.
pub fn durable(options: SqliteConnectOptions) -> SqliteConnectOptions {
    options.journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Full)
}
