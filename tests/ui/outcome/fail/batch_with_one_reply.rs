use inbox_runtime::{MessageId, Reply, idempotent_consumer};
use sqlx::{Postgres, Transaction};

#[idempotent_consumer(name = "ledger", batch = 500)]
async fn post(tx: &mut Transaction<'_, Postgres>, ids: Vec<MessageId>) -> Result<Reply<usize>, sqlx::Error> {
    sqlx::query("UPDATE accounts SET balance = 0").execute(&mut **tx).await?;
    Ok(Reply(ids.len()))
}

fn main() {}
