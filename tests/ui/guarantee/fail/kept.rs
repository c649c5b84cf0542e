//! Nothing of the transaction outlives the body.
use std::sync::Mutex;

use inbox_runtime::idempotent_consumer;
use sqlx::{Postgres, Transaction};

static KEPT: Mutex<Option<&'static mut Transaction<'static, Postgres>>> = Mutex::new(None);

#[idempotent_consumer(name = "billing")]
async fn charge(tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE accounts SET balance = 0").execute(&mut **tx).await?;
    *KEPT.lock().unwrap() = Some(tx);
    Ok(())
}

fn main() {}
