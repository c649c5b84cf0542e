#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! Answers of every shape that serde writes and reads.

use std::collections::BTreeMap;

use inbox_runtime::{MessageId, Outcome, Reply, idempotent_consumer};
use sqlx::{PgPool, Postgres, Transaction};

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Receipt {
    /// Its number.
    pub number: u64,
    /// What else there is to say.
    pub note: Option<String>,
}

#[idempotent_consumer(name = "own")]
async fn own(_tx: &mut Transaction<'_, Postgres>) -> Result<Reply<Receipt>, sqlx::Error> {
    Ok(Reply(Receipt { number: 1, note: None }))
}

#[idempotent_consumer(name = "none")]
async fn none(_tx: &mut Transaction<'_, Postgres>) -> Result<Reply<Option<i64>>, sqlx::Error> {
    Ok(Reply(None))
}

#[idempotent_consumer(name = "map")]
async fn map(_tx: &mut Transaction<'_, Postgres>) -> Result<Reply<BTreeMap<String, Vec<u8>>>, sqlx::Error> {
    Ok(Reply(BTreeMap::new()))
}

#[idempotent_consumer(name = "unit")]
async fn unit(_tx: &mut Transaction<'_, Postgres>) -> Result<Reply<()>, sqlx::Error> {
    Ok(Reply(()))
}

/// The type of the answer is that of the body's.
pub async fn ask(pool: &PgPool, id: MessageId) -> Option<(Receipt, Option<i64>, usize)> {
    let receipt: Receipt = own(pool, id).await.ok()?.into_inner();
    let (Outcome::Applied(number) | Outcome::Duplicate(number)) = none(pool, id).await.ok()?;
    let () = unit(pool, id).await.ok()?.into_inner();
    Some((receipt, number, map(pool, id).await.ok()?.into_inner().len()))
}

fn main() {}
