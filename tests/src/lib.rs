//! What the tests share. A test whose server is missing fails; nothing is skipped silently.
#![allow(missing_docs, reason = "test support")]

pub mod database;
pub mod proxy;
pub mod server;
pub mod watched;
