use inbox_runtime::idempotent_consumer;
use sqlx::{Postgres, Transaction};

#[idempotent_consumer(name = "billing")]
async fn charge(tx: &mut Transaction<'_, Postgres>) -> Result<u64, sqlx::Error> {
    drop(tx);
    Ok(1)
}

fn main() {}
