use inbox_runtime::{MessageId, idempotent_consumer};
use sqlx::{Postgres, Transaction};

#[idempotent_consumer(name = "ledger", linger = "20ms")]
async fn post(tx: &mut Transaction<'_, Postgres>, _id: MessageId) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE accounts SET balance = 0").execute(&mut **tx).await?;
    Ok(())
}

fn main() {}
