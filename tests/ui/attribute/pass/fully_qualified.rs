#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! By its path, without a `use`, and under another name.

use inbox_runtime::idempotent_consumer as consumer;

#[inbox_runtime::idempotent_consumer(name = "by.path")]
async fn by_path(_tx: &mut sqlx::Transaction<'_, sqlx::Postgres>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[::inbox_runtime::idempotent_consumer(name = "by.root")]
async fn by_root(_tx: &mut ::sqlx::Transaction<'_, ::sqlx::Postgres>) -> ::std::result::Result<(), ::sqlx::Error> {
    Ok(())
}

#[consumer(name = "renamed")]
async fn renamed(_tx: &mut sqlx::PgTransaction<'_>) -> Result<(), sqlx::Error> {
    Ok(())
}

fn main() {
    assert_eq!([by_path::NAME, by_root::NAME, renamed::NAME], ["by.path", "by.root", "renamed"]);
}
