use inbox_runtime::idempotent_consumer;
use sqlx::{Postgres, Transaction};

use std::rc::Rc;

#[idempotent_consumer(name = "billing")]
async fn charge(tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    let count = Rc::new(1);
    sqlx::query("UPDATE accounts SET balance = 0").execute(&mut **tx).await?;
    drop(count);
    Ok(())
}

fn main() {}
