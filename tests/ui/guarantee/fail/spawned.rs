//! A task outlives the body.
use inbox_runtime::idempotent_consumer;
use sqlx::{Postgres, Transaction};

#[idempotent_consumer(name = "billing")]
async fn charge(tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    tokio::spawn(async move { sqlx::query("UPDATE accounts SET balance = 0").execute(&mut **tx).await });
    Ok(())
}

fn main() {}
