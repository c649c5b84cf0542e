#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! Every level.

use inbox_runtime::idempotent_consumer;
use sqlx::{Postgres, Transaction};

#[idempotent_consumer(name = "committed", isolation = "read committed")]
async fn committed(_tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[idempotent_consumer(name = "repeatable", isolation = "repeatable read")]
async fn repeatable(_tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[idempotent_consumer(name = "serializable", isolation = "serializable")]
async fn serializable(_tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    Ok(())
}

fn main() {
    assert_eq!([committed::NAME, repeatable::NAME, serializable::NAME].len(), 3);
}
