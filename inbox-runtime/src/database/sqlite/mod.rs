//! SQLite, as sqlx bundles it.

mod dialect;
mod migrate;
pub mod pool;
mod sql;
mod verify;
