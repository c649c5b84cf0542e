#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! Other attributes, above and below (E12).

use inbox_runtime::{Json, idempotent_consumer};
use sqlx::{Postgres, Transaction};

/// An attribute macro above sees a function, one below gets the body.
#[tracing::instrument(skip_all)]
#[idempotent_consumer(name = "above")]
async fn above(tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    sqlx::query("SELECT 1").execute(&mut **tx).await?;
    Ok(())
}

#[idempotent_consumer(name = "below")]
#[tracing::instrument(skip_all)]
async fn below(tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    sqlx::query("SELECT 1").execute(&mut **tx).await?;
    Ok(())
}

/// Who calls it is warned; the generated code is not a caller.
#[idempotent_consumer(name = "old")]
#[deprecated = "use `below`"]
#[must_use]
async fn old(tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    sqlx::query("SELECT 1").execute(&mut **tx).await?;
    Ok(())
}

/// What is expected of the function is expected once.
#[idempotent_consumer(name = "lints")]
#[allow(non_snake_case)]
#[expect(unused_variables, reason = "for the fixture")]
async fn Lints(tx: &mut Transaction<'_, Postgres>, order: Json<u8>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[idempotent_consumer(name = "conditional")]
#[cfg_attr(all(), doc = "Conditional.", allow(unused_variables))]
#[cfg_attr(any(), cfg(any()))]
async fn conditional(tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[idempotent_consumer(name = "section")]
#[inline(never)]
async fn section(tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    sqlx::query("SELECT 1").execute(&mut **tx).await?;
    Ok(())
}

fn main() {
    assert_eq!([above::NAME, below::NAME, old::NAME, Lints::NAME, conditional::NAME, section::NAME].len(), 6);
}
