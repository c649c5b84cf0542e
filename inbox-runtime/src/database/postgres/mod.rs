//! PostgreSQL 13 to 18.

mod answers;
mod commit_guard;
mod dialect;
mod flush;
mod migrate;
pub mod pool;
mod sql;
mod verify;
