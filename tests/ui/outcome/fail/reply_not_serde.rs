use inbox_runtime::{Reply, idempotent_consumer};
use sqlx::{Postgres, Transaction};

pub struct Total;

#[idempotent_consumer(name = "billing")]
async fn charge(tx: &mut Transaction<'_, Postgres>) -> Result<Reply<Total>, sqlx::Error> {
    drop(tx);
    Ok(Reply(Total))
}

fn main() {}
