#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! An entry can be spawned, selected, timed out and kept, with everything owned.

use std::time::Duration;

use inbox_runtime::{Inbox, Json, MessageId, Outcome, ProcessError, idempotent_consumer};
use sqlx::{PgPool, Postgres, Transaction};

#[idempotent_consumer(name = "charged")]
async fn charge(tx: &mut Transaction<'_, Postgres>, Json(cents): Json<i64>) -> Result<(), sqlx::Error> {
    sqlx::query("SELECT $1").bind(cents).execute(&mut **tx).await.map(drop)
}

type Charged = Result<Outcome<()>, ProcessError<sqlx::Error>>;

/// In a task of its own.
pub fn spawned(pool: &PgPool, id: MessageId) -> tokio::task::JoinHandle<Charged> {
    // It borrows nothing of the pool.
    tokio::spawn(charge(pool, id, Json(1)))
}

/// With a bound; what it cuts short is rolled back.
pub async fn bounded(inbox: &Inbox<Postgres>, id: MessageId) -> Option<Charged> {
    tokio::time::timeout(Duration::from_secs(1), charge(inbox, id, Json(2))).await.ok()
}

/// Several at once.
pub async fn both(pool: PgPool, one: MessageId, two: MessageId) -> bool {
    let (one, two) = tokio::join!(charge(&pool, one, Json(1)), charge(&pool, two, Json(2)));
    one.is_ok_and(|outcome| outcome.is_applied()) && two.is_ok()
}

fn main() {}
