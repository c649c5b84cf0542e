//! Pools for PostgreSQL that never hand out an open transaction.

use sqlx::{Connection, Executor, postgres::PgPoolOptions};

/// A pool that hands out no open transactions: what we use ourselves, and recommend for every pool of an application that uses sqlx 0.9.0.
///
/// That version has two ways to return a connection inside a transaction (a `begin()` that was cancelled, a `begin_with("BEGIN; ..")` that
/// failed), after which somebody's autocommit writes return `Ok` and are lost. The hook ends whatever is open when a connection
/// comes back, and drops the connection if that fails.
pub fn pool_options() -> PgPoolOptions {
    PgPoolOptions::new().after_release(|conn, _| {
        Box::pin(async move {
            // BEGIN first: inside a transaction it only warns, outside of one it gives ROLLBACK something to end.
            conn.execute("BEGIN; ROLLBACK").await?;
            conn.ping().await?;
            Ok(true)
        })
    })
}
