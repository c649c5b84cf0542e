#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! An extractor of the user's own, and none at all.

use inbox_runtime::{FromMessage, MessageContext, Rejection, idempotent_consumer};
use sqlx::{Sqlite, Transaction};

/// The tenant, from the topic.
pub struct Tenant(String);

impl FromMessage for Tenant {
    fn from_message(context: &MessageContext) -> Result<Self, Rejection> {
        Ok(Self(context.message().topic.clone()))
    }
}

#[idempotent_consumer(name = "own")]
async fn own(tx: &mut Transaction<'_, Sqlite>, Tenant(tenant): Tenant) -> Result<(), sqlx::Error> {
    sqlx::query("SELECT ?").bind(tenant).execute(&mut **tx).await?;
    Ok(())
}

#[idempotent_consumer(name = "none")]
async fn none(tx: &mut Transaction<'_, Sqlite>) -> Result<(), sqlx::Error> {
    sqlx::query("SELECT 1").execute(&mut **tx).await?;
    Ok(())
}

fn main() {
    assert_eq!([own::NAME, none::NAME].len(), 2);
}
