#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! Attributes that rewrite the function stand on the body.

use inbox_runtime::{Json, MessageId, idempotent_consumer};
use sqlx::{Postgres, Transaction};

#[idempotent_consumer(name = "after")]
#[tracing::instrument(skip(tx), err)]
async fn after(tx: &mut Transaction<'_, Postgres>, id: MessageId, Json(cents): Json<i64>) -> Result<(), sqlx::Error> {
    tracing::info!(%id, cents, "charging");
    sqlx::query("SELECT $1").bind(cents).execute(&mut **tx).await.map(drop)
}

fn main() {
    assert_eq!(after::NAME, "after");
}
