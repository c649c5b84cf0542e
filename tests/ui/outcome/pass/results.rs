#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! Results of every kind that a consumer may return, and entries that can be spawned.

use inbox_runtime::{BoxError, MessageId, Outcome, Reply, idempotent_consumer};
use sqlx::{PgPool, PgTransaction};

type Result<T, E = BoxError> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
#[error("no")]
struct Declined;

#[idempotent_consumer(name = "own")]
async fn own(_tx: &mut PgTransaction<'_>) -> Result<(), Declined> {
    Err(Declined)
}

#[idempotent_consumer(name = "boxed")]
async fn boxed(_tx: &mut PgTransaction<'_>) -> Result<()> {
    Ok(())
}

#[idempotent_consumer(name = "any")]
async fn any(_tx: &mut PgTransaction<'_>) -> anyhow::Result<()> {
    anyhow::bail!("no")
}

#[idempotent_consumer(name = "reply")]
async fn reply(_tx: &mut PgTransaction<'_>) -> Result<Reply<Vec<String>>> {
    Ok(Reply(Vec::new()))
}

/// Spawns them.
pub fn call(pool: PgPool, id: MessageId) {
    tokio::spawn(async move {
        let _: Result<Outcome<()>, _> = own(&pool, id).await;
        let _: Result<Outcome<()>, _> = boxed(&pool, id).await;
        let _: Result<Outcome<()>, _> = any(&pool, id).await;
        let lines: Vec<String> = reply(&pool, id).await.map(Outcome::into_inner).unwrap_or_default();
        lines.len()
    });
}

fn main() {}
