#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! Every way to write the transaction.

use inbox_runtime::idempotent_consumer;
use sqlx::{PgTransaction, Postgres, Sqlite, SqliteTransaction, Transaction};

/// A crate's own.
pub type Tx<'c> = Transaction<'c, Postgres>;

/// A crate's own, of any database.
pub type Within<'c, DB> = Transaction<'c, DB>;

#[idempotent_consumer(name = "plain")]
async fn plain(_tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[allow(unused_qualifications)]
#[idempotent_consumer(name = "path")]
async fn path(_tx: &mut sqlx::Transaction<'_, sqlx::Sqlite>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[idempotent_consumer(name = "short")]
async fn short(_tx: &mut PgTransaction<'_>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[idempotent_consumer(name = "short.sqlite")]
async fn short_sqlite(_tx: &mut SqliteTransaction<'_>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[idempotent_consumer(name = "alias")]
async fn alias(_tx: &mut Tx<'_>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[idempotent_consumer(name = "generic")]
async fn generic(_: &mut Within<'_, Sqlite>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[allow(unused_parens)]
#[idempotent_consumer(name = "parentheses")]
async fn parentheses(_tx: &mut (PgTransaction<'_>)) -> Result<(), sqlx::Error> {
    Ok(())
}

fn main() {
    let names = [plain::NAME, path::NAME, short::NAME, short_sqlite::NAME, alias::NAME, generic::NAME, parentheses::NAME];
    assert_eq!(names.len(), 7);
}
