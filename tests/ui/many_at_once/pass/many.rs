#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! Many consumers in one module, on two databases, by hand and by the linker.

use inbox_runtime::{Dispatcher, Registration, idempotent_consumer};
use sqlx::{PgPool, Postgres, Sqlite, SqlitePool, Transaction};

#[idempotent_consumer(name = "billing", topic = "orders")]
async fn billing(_tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[idempotent_consumer(name = "inventory", topics = ["orders", "returns"])]
async fn inventory(_tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[idempotent_consumer(name = "mirror", topic = "orders")]
async fn mirror(_tx: &mut Transaction<'_, Sqlite>) -> Result<(), sqlx::Error> {
    Ok(())
}

/// Each database has a dispatcher.
pub async fn dispatchers(postgres: &PgPool, sqlite: &SqlitePool) -> (bool, bool) {
    let linked = Dispatcher::builder(postgres).only(["billing", "inventory"]).expect(["billing"]).build().await;
    let by_hand = Dispatcher::builder(sqlite).without_linked().register(mirror::registration()).build().await;
    (linked.is_ok(), by_hand.is_ok())
}

fn main() {
    let all: Vec<&str> = [billing::registration(), inventory::registration(), mirror::registration()].iter().map(Registration::name).collect();
    assert_eq!(all, ["billing", "inventory", "mirror"]);
}
