#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! Raw identifiers are names without their prefix (E12).

use inbox_runtime::{Json, MessageId, idempotent_consumer};
use sqlx::{PgPool, Postgres, Transaction};

#[idempotent_consumer(name = "type")]
async fn r#type(tx: &mut Transaction<'_, Postgres>, r#match: Json<u8>) -> Result<(), sqlx::Error> {
    sqlx::query("SELECT $1").bind(i32::from(r#match.0)).execute(&mut **tx).await?;
    Ok(())
}

/// Calls it.
pub async fn call(pool: &PgPool, id: MessageId) -> bool {
    r#type(pool, id, Json(1)).await.is_ok()
}

fn main() {
    assert_eq!(r#type::NAME, "type");
}
