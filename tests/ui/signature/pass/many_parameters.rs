#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! As many as one likes.

use inbox_runtime::{Bytes, Headers, Json, Key, MessageId, State, idempotent_consumer};
use sqlx::{Postgres, Transaction};

#[idempotent_consumer(name = "many")]
#[expect(clippy::too_many_arguments, reason = "that is the point")]
async fn many(
    tx: &mut Transaction<'_, Postgres>,
    Json(a): Json<u8>,
    Json(b): Json<u16>,
    Json(c): Json<u32>,
    Json(d): Json<u64>,
    bytes: Bytes,
    headers: Headers,
    key: Option<Key>,
    id: MessageId,
    State(state): State<i32>,
    Json(e): Json<i64>,
) -> Result<(), sqlx::Error> {
    let sum = i64::from(a) + i64::from(b) + i64::from(c) + i64::try_from(d).unwrap_or(0) + i64::from(state) + e;
    let query = sqlx::query("SELECT $1, $2, $3, $4").bind(sum).bind(bytes.to_vec()).bind(id.as_uuid()).bind(headers.len() as i64);
    query.bind(key.map(|Key(key)| key.to_vec())).execute(&mut **tx).await.map(drop)
}

fn main() {
    assert_eq!(many::NAME, "many");
}
