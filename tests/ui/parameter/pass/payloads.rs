#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! Payloads of every shape that serde reads into an owned value.

use std::{borrow::Cow, collections::BTreeMap};

use inbox_runtime::{Json, idempotent_consumer};
use sqlx::{Postgres, Transaction};

/// One event of several.
#[derive(Debug, serde::Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// With fields.
    Placed {
        /// How much.
        cents: i64,
    },
    /// Without.
    Cancelled,
}

/// An envelope.
#[derive(Debug, serde::Deserialize)]
pub struct Envelope<T> {
    /// What is in it.
    pub data: T,
}

#[idempotent_consumer(name = "shapes")]
async fn shapes(
    tx: &mut Transaction<'_, Postgres>,
    Json(Envelope { data }): Json<Envelope<Event>>,
    Json(map): Json<BTreeMap<String, serde_json::Value>>,
    Json(text): Json<Cow<'static, str>>,
    Json((a, b)): Json<(i64, Option<i64>)>,
    Json(()): Json<()>,
    Json([c, d]): Json<[i64; 2]>,
) -> Result<(), sqlx::Error> {
    let cents = match data {
        Event::Placed { cents } => cents,
        Event::Cancelled => 0,
    };
    let sum = cents + a + b.unwrap_or_default() + c + d + i64::try_from(map.len() + text.len()).unwrap_or_default();
    sqlx::query("SELECT $1").bind(sum).execute(&mut **tx).await.map(drop)
}

fn main() {
    assert_eq!(shapes::NAME, "shapes");
}
