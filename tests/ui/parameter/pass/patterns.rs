#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! Every pattern that a parameter may have (E10).

use inbox_runtime::{Bytes, Headers, Json, Key, MessageId, State, idempotent_consumer};
use sqlx::{PgPool, Postgres, Transaction};

/// An order.
#[derive(serde::Deserialize)]
pub struct Order {
    id: i64,
    amount: i64,
    lines: Vec<i64>,
}

#[idempotent_consumer(name = "patterns")]
async fn patterns(
    tx: &mut Transaction<'_, Postgres>,
    Json(order): Json<Order>,
    mut second: Json<Order>,
    _: MessageId,
    State((clock, zone)): State<(i64, i64)>,
    ref headers: Headers,
    Json(Order { id, amount, .. }): Json<Order>,
    whole @ Json(_): Json<i64>,
    _unused: Option<Key>,
    id2: Option<Bytes>,
) -> Result<(), sqlx::Error> {
    second.0.lines.push(clock + zone + id + amount + whole.0);
    let sum = order.lines.iter().sum::<i64>() + order.id + order.amount + i64::try_from(headers.len()).unwrap_or(0);
    sqlx::query("SELECT $1").bind(sum + i64::from(id2.is_some())).execute(&mut **tx).await?;
    Ok(())
}

/// The entry takes the same values, in the same order.
pub async fn call(pool: &PgPool, id: MessageId, headers: Headers) -> bool {
    let order = || Json(Order { id: 1, amount: 1, lines: Vec::new() });
    patterns(pool, id, order(), order(), id, State((1, 2)), headers, order(), Json(1), None, None).await.is_ok()
}

fn main() {}
