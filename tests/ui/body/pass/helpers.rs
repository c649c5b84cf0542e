#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! Repositories that take a connection, an executor or a transaction work unchanged.

use inbox_runtime::idempotent_consumer;
use sqlx::{PgConnection, PgExecutor, Postgres, Transaction};

async fn by_connection(conn: &mut PgConnection) -> Result<u64, sqlx::Error> {
    Ok(sqlx::query("SELECT 1").execute(conn).await?.rows_affected())
}

async fn by_executor(executor: impl PgExecutor<'_>) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("SELECT 1::bigint").fetch_one(executor).await
}

async fn by_transaction(tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    by_connection(tx).await.map(drop)
}

struct Repository<'t, 'c>(&'t mut Transaction<'c, Postgres>);

impl Repository<'_, '_> {
    async fn save(&mut self) -> Result<(), sqlx::Error> {
        by_connection(self.0).await.map(drop)
    }
}

#[idempotent_consumer(name = "helpers")]
async fn helpers(tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    by_connection(tx).await?;
    by_executor(&mut **tx).await?;
    by_transaction(tx).await?;
    Repository(tx).save().await
}

fn main() {
    assert_eq!(helpers::NAME, "helpers");
}
