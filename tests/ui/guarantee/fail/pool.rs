//! What is written through a pool is not undone with the message.
use inbox_runtime::idempotent_consumer;
use sqlx::{PgPool, Postgres, Transaction};

#[idempotent_consumer(name = "billing")]
async fn charge(tx: &mut Transaction<'_, Postgres>, pool: PgPool) -> Result<(), sqlx::Error> {
    drop(tx);
    sqlx::query("UPDATE accounts SET balance = 0").execute(&pool).await.map(drop)
}

fn main() {}
