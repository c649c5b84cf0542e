#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! Shared values of every kind.

use std::sync::{Arc, atomic::AtomicU64};

use inbox_runtime::{State, idempotent_consumer};
use sqlx::{Postgres, Transaction};

/// A service behind a trait.
pub trait Rates: Send + Sync {
    /// The rate.
    fn rate(&self) -> i64;
}

/// Settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How many.
    pub limit: i64,
}

#[idempotent_consumer(name = "states")]
async fn states(
    tx: &mut Transaction<'_, Postgres>,
    State(rates): State<Arc<dyn Rates>>,
    State(Settings { limit }): State<Settings>,
    State(count): State<Arc<AtomicU64>>,
    State(round): State<fn(i64) -> i64>,
) -> Result<(), sqlx::Error> {
    count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    sqlx::query("SELECT $1").bind(round(rates.rate().min(limit))).execute(&mut **tx).await.map(drop)
}

fn main() {
    assert_eq!(states::NAME, "states");
}
