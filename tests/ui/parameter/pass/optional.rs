#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! What may be missing.

use inbox_runtime::{Bytes, Header, Json, Key, MessageContext, NamedHeader, OptionalFromMessage, Rejection, idempotent_consumer};
use sqlx::{Postgres, Transaction};

/// A header.
#[derive(Debug)]
pub struct Attempt(u32);

impl std::str::FromStr for Attempt {
    type Err = std::num::ParseIntError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl NamedHeader for Attempt {
    const NAME: &'static str = "attempt";
}

/// One of ours, which may be missing.
#[derive(Debug)]
pub struct Region(String);

impl OptionalFromMessage for Region {
    fn optional_from_message(context: &MessageContext) -> Result<Option<Self>, Rejection> {
        Ok(context.message().topic.split_once('.').map(|(region, _)| Self(region.to_owned())))
    }
}

#[idempotent_consumer(name = "optional")]
async fn optional(
    tx: &mut Transaction<'_, Postgres>,
    attempt: Option<Header<Attempt>>,
    region: Option<Region>,
    payload: Option<Json<Vec<i64>>>,
    bytes: Option<Bytes>,
    key: Option<Key>,
) -> Result<(), sqlx::Error> {
    let attempt = attempt.map(|Header(Attempt(attempt))| i64::from(attempt));
    let there = [region.map(|Region(region)| region.len()), payload.map(|Json(all)| all.len()), bytes.map(|b| b.len()), key.map(|k| k.0.len())];
    sqlx::query("SELECT $1, $2").bind(attempt).bind(there.iter().flatten().count() as i64).execute(&mut **tx).await.map(drop)
}

fn main() {
    assert_eq!(optional::NAME, "optional");
}
