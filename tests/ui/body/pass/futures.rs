#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! Futures of the body's own: joined, selected, boxed, recursive, in closures.

use inbox_runtime::idempotent_consumer;
use sqlx::{PgConnection, Postgres, Transaction};

fn count(conn: &mut PgConnection, down: u32) -> std::pin::Pin<Box<dyn Future<Output = Result<u32, sqlx::Error>> + Send + '_>> {
    Box::pin(async move {
        if down == 0 {
            return Ok(0);
        }
        sqlx::query("SELECT 1").execute(&mut *conn).await?;
        Ok(1 + count(conn, down - 1).await?)
    })
}

#[idempotent_consumer(name = "futures")]
async fn futures(tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    let (one, two) = tokio::join!(async { 1_u32 }, std::future::ready(2));
    let three = count(tx, one + two).await?;
    let later = async |number: u32| number + 1;
    tokio::select! {
        biased;
        four = later(three) => assert_eq!(four, three + 1),
        () = std::future::pending() => {}
    }
    tokio::task::spawn_blocking(move || three).await.map(drop).map_err(|_| sqlx::Error::WorkerCrashed)
}

fn main() {
    assert_eq!(futures::NAME, "futures");
}
