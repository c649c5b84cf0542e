#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! The smallest and the largest of both.

use inbox_runtime::{MessageId, idempotent_consumer};
use sqlx::{Postgres, Sqlite, Transaction};

#[idempotent_consumer(name = "pairs", group = 2)]
async fn pairs(_tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[idempotent_consumer(name = "crowds", group = 1_000)]
async fn crowds(_tx: &mut Transaction<'_, Sqlite>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[idempotent_consumer(name = "couples", batch = 2)]
async fn couples(_tx: &mut Transaction<'_, Postgres>, _ids: Vec<MessageId>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[idempotent_consumer(name = "masses", batch = 5000)]
async fn masses(_tx: &mut Transaction<'_, Sqlite>, _ids: Vec<MessageId>) -> Result<(), sqlx::Error> {
    Ok(())
}

fn main() {
    assert_eq!([pairs::NAME, crowds::NAME, couples::NAME, masses::NAME].len(), 4);
}
