#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! With or without a last comma, on one line or many, in any order.

use inbox_runtime::idempotent_consumer;
use sqlx::{Postgres, Transaction};

#[idempotent_consumer(name = "one",)]
async fn one(_tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[idempotent_consumer(
    topics = [
        "orders",
        "refunds",
    ],
    aliases = ["old",],
    name = "two"
)]
async fn two(_tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    Ok(())
}

fn main() {
    assert_eq!((one::NAME, two::NAME), ("one", "two"));
}
