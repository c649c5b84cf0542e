#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! All arguments at once.

use inbox_runtime::idempotent_consumer;
use sqlx::{Sqlite, Transaction};

#[idempotent_consumer(
    name = "billing",
    aliases = ["invoicing", "charges"],
    topics = ["orders", "refunds"],
    event = "OrderPlaced",
    isolation = "serializable",
    timeout = "1500ms",
    crate = ::inbox_runtime,
)]
async fn charge(tx: &mut Transaction<'_, Sqlite>) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE accounts SET balance = 0").execute(&mut **tx).await?;
    Ok(())
}

fn main() {
    assert_eq!(charge::NAME, "billing");
    assert_eq!(charge::registration().name(), "billing");
    assert!(charge::registration().location().file.ends_with("every_argument.rs"));
}
