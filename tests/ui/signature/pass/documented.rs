#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! Documentation, deprecation and lints stand where the user put them.

use inbox_runtime::idempotent_consumer;
use sqlx::{Postgres, Transaction};

/// Charges an account.
///
/// # Errors
///
/// When the database does.
#[idempotent_consumer(name = "charged")]
#[must_use]
#[allow(clippy::missing_panics_doc)]
pub async fn charge(tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    sqlx::query("SELECT 1").execute(&mut **tx).await.map(drop)
}

#[doc(hidden)]
#[idempotent_consumer(name = "hidden")]
#[deprecated(since = "1.0.0", note = "use `charge`")]
pub async fn hidden(tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    charge::body(tx).await
}

fn main() {}
