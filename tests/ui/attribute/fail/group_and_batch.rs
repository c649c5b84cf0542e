use inbox_runtime::{MessageId, idempotent_consumer};
use sqlx::{Postgres, Transaction};

#[idempotent_consumer(name = "ledger", group = 100, batch = 500)]
async fn post(tx: &mut Transaction<'_, Postgres>, ids: Vec<MessageId>) -> Result<(), sqlx::Error> {
    drop(ids);
    sqlx::query("UPDATE accounts SET balance = 0").execute(&mut **tx).await?;
    Ok(())
}

fn main() {}
