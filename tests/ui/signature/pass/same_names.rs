#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! Parameters that are called as the entry's own, or as what the attribute writes.

use inbox_runtime::{Json, MessageId, Outcome, ProcessError, idempotent_consumer};
use sqlx::{PgPool, Postgres, Transaction};

#[idempotent_consumer(name = "names")]
async fn names(
    inbox: &mut Transaction<'_, Postgres>,
    id: MessageId,
    Json(name): Json<String>,
    Json(__tx): Json<i64>,
    Json(body): Json<i64>,
) -> Result<(), sqlx::Error> {
    sqlx::query("SELECT $1, $2, $3").bind(id.as_uuid()).bind(name).bind(__tx + body).execute(&mut **inbox).await.map(drop)
}

/// By position, whatever they are called.
pub async fn call(pool: &PgPool, id: MessageId) -> Result<Outcome<()>, ProcessError<sqlx::Error>> {
    names(pool, id, id, Json("x".to_owned()), Json(1), Json(2)).await
}

fn main() {}
