//! SQLite, as sqlx bundles it.

mod dialect;
mod flush;
mod migrate;
pub mod pool;
mod sql;
mod verify;
