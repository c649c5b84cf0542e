use inbox_runtime::{FromMessage, idempotent_consumer};
use sqlx::{Postgres, Transaction};

#[idempotent_consumer(name = "billing")]
async fn charge(tx: &mut Transaction<'_, Postgres>, order: impl FromMessage) -> Result<(), sqlx::Error> {
    drop(order);
    sqlx::query("UPDATE accounts SET balance = 0").execute(&mut **tx).await?;
    Ok(())
}

fn main() {}
