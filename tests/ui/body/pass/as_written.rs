#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! The body is the user's: its macros, its inner attributes, its items.

use inbox_runtime::{Json, idempotent_consumer};
use sqlx::{Postgres, Transaction};

#[idempotent_consumer(name = "billing")]
async fn charge(tx: &mut Transaction<'_, Postgres>, Json(amounts): Json<Vec<i64>>) -> Result<(), sqlx::Error> {
    #![allow(clippy::needless_return)]
    const LIMIT: i64 = 10;
    fn small(amount: &i64) -> bool {
        *amount < LIMIT
    }
    macro_rules! save {
        ($amount:expr) => {
            sqlx::query("SELECT $1").bind($amount).execute(&mut **tx).await?
        };
    }
    'all: for amount in amounts.into_iter().filter(small) {
        if amount == 0 {
            continue 'all;
        }
        save!(amount);
    }
    return Ok(());
}

/// The body without the inbox, for unit tests.
pub async fn unit_test(tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    charge::body(tx, Json(vec![1])).await
}

fn main() {}
