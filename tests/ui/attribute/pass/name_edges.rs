#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! The shortest and the longest name, with every character that one may have.

use inbox_runtime::idempotent_consumer;
use sqlx::{Postgres, Transaction};

#[idempotent_consumer(name = "a")]
async fn shortest(_tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[idempotent_consumer(name = "0123456789.abcdefghijklmnopqrstuvwxyz_-0123456789.abcdefghijklmnopqrstuvwxyz_-0123456789.abcdefghijklmnopqrstuvwxyz_-0123456789a")]
async fn longest(_tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    Ok(())
}

fn main() {
    assert_eq!((shortest::NAME.len(), longest::NAME.len()), (1, 128));
}
