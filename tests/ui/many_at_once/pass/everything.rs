#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! All arguments, all extractors, a reply and a pattern for each, at once.

use inbox_runtime::{Bytes, Header, Headers, Json, Key, MessageId, NamedHeader, Reply, State, idempotent_consumer};
use sqlx::{Postgres, Transaction};

/// A header.
#[derive(Debug)]
pub struct Tenant(u32);

impl std::str::FromStr for Tenant {
    type Err = std::num::ParseIntError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl NamedHeader for Tenant {
    const NAME: &'static str = "tenant";
}

/// Everything.
#[idempotent_consumer(
    name = "everything",
    aliases = ["something"],
    topics = ["a", "b"],
    event = "E",
    isolation = "repeatable read",
    timeout = "5s",
    group = 10,
    crate = ::inbox_runtime
)]
pub async fn everything(
    tx: &mut Transaction<'_, Postgres>,
    Json((first, ..)): Json<(i64, i64)>,
    ref headers: Headers,
    mut key: Option<Key>,
    Header(Tenant(tenant)): Header<Tenant>,
    State((a, b)): State<(i64, i64)>,
    bytes @ Bytes { .. }: Bytes,
    id: MessageId,
) -> Result<Reply<(i64, String)>, Box<dyn std::error::Error + Send + Sync>> {
    let key = key.take().map(|Key(key)| key.to_vec());
    let sum = first + a + b + i64::from(tenant) + i64::try_from(headers.len() + bytes.len())?;
    sqlx::query("SELECT $1, $2").bind(sum).bind(key).execute(&mut **tx).await?;
    Ok(Reply((sum, id.to_string())))
}

fn main() {
    assert_eq!(everything::NAME, "everything");
}
