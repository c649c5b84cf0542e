#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! A body without the inbox, under a name that says so.

use inbox_runtime::{Json, idempotent_consumer};
use sqlx::{Sqlite, SqlitePool, Transaction};

#[idempotent_consumer(name = "credited")]
async fn credit(tx: &mut Transaction<'_, Sqlite>, Json(cents): Json<i64>) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE accounts SET cents = cents + ?").bind(cents).execute(&mut **tx).await.map(drop)
}

/// As a test has it.
///
/// # Errors
///
/// The database's.
pub async fn twice(pool: &SqlitePool) -> Result<i64, sqlx::Error> {
    let mut tx = pool.begin().await?;
    credit::body(&mut tx, Json(5)).await?;
    credit::body(&mut tx, Json(5)).await?;
    sqlx::query_scalar("SELECT cents FROM accounts").fetch_one(&mut *tx).await
}

fn main() {}
