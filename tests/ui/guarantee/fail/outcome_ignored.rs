#![deny(warnings)]
//! Whether it was applied is not to be overlooked, nor why not.
use inbox_runtime::{MessageId, idempotent_consumer};
use sqlx::{PgPool, Postgres, Transaction};

#[idempotent_consumer(name = "billing")]
async fn charge(tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE accounts SET balance = 0").execute(&mut **tx).await.map(drop)
}

pub async fn called(pool: PgPool, id: MessageId) {
    charge(&pool, id);
    charge(&pool, id).await;
}

fn main() {}
