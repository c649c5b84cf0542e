#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! A string literal is one however it is written.

use inbox_runtime::idempotent_consumer;
use sqlx::{Postgres, Transaction};

#[idempotent_consumer(name = r"raw", topic = r#"or"ders"#)]
async fn raw(_tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[idempotent_consumer(name = "\x61\u{62}c", event = "Order\tPlaced")]
async fn escaped(_tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    Ok(())
}

fn main() {
    assert_eq!((raw::NAME, escaped::NAME), ("raw", "abc"));
}
