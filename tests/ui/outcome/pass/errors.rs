#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! Errors of every kind, and what one may ask a failed call.

use inbox_runtime::{BoxError, FailureKind, MessageId, ProcessError, idempotent_consumer};
use sqlx::{PgPool, Postgres, Transaction};

/// A crate's own.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database's.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    /// Ours.
    #[error("no stock")]
    NoStock,
}

/// With its error left out.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[idempotent_consumer(name = "own")]
async fn own(tx: &mut Transaction<'_, Postgres>) -> Result<()> {
    sqlx::query("SELECT 1").execute(&mut **tx).await?;
    Err(Error::NoStock)
}

#[idempotent_consumer(name = "text")]
async fn text(_tx: &mut Transaction<'_, Postgres>) -> Result<(), String> {
    Err("no stock".to_owned())
}

#[idempotent_consumer(name = "boxed")]
async fn boxed(tx: &mut Transaction<'_, Postgres>) -> Result<(), BoxError> {
    own::body(tx).await?;
    Ok(())
}

#[idempotent_consumer(name = "never")]
async fn never(_tx: &mut Transaction<'_, Postgres>) -> Result<(), std::convert::Infallible> {
    Ok(())
}

/// What became of it.
pub async fn call(pool: &PgPool, id: MessageId) -> Option<FailureKind> {
    let _ = (text(pool, id).await.is_err(), boxed(pool, id).await.is_err(), never(pool, id).await.is_err());
    match own(pool, id).await {
        Ok(_) => None,
        Err(ProcessError::Handler(Error::NoStock)) => Some(FailureKind::Failed),
        Err(other) => Some(other.kind()),
    }
}

fn main() {}
