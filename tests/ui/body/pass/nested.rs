#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! A nested transaction is the body's own affair.

use inbox_runtime::idempotent_consumer;
use sqlx::{Acquire, Postgres, Transaction};

#[idempotent_consumer(name = "nested")]
async fn nested(tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    let mut savepoint = tx.begin().await?;
    if sqlx::query("SELECT 1 / 0").execute(&mut *savepoint).await.is_err() {
        savepoint.rollback().await?;
    } else {
        savepoint.commit().await?;
    }
    sqlx::query("SELECT 1").execute(&mut **tx).await.map(drop)
}

fn main() {
    assert_eq!(nested::NAME, "nested");
}
