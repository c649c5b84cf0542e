use inbox_runtime::idempotent_consumer;
use sqlx::{Postgres, Transaction};

#[derive(serde::Deserialize)]
pub struct Order {
    pub amount: i64,
}

#[idempotent_consumer(name = "billing")]
async fn charge(tx: &mut Transaction<'_, Postgres>, order: Order) -> Result<(), sqlx::Error> {
    assert!(order.amount > 0);
    sqlx::query("UPDATE accounts SET balance = 0").execute(&mut **tx).await?;
    Ok(())
}

fn main() {}
