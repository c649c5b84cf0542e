use inbox_runtime::{Json, idempotent_consumer};
use sqlx::{Postgres, Transaction};

#[derive(serde::Deserialize)]
pub struct Order {
    pub amount: i64,
}

#[idempotent_consumer(name = "billing")]
async fn charge(tx: &mut Transaction<'_, Postgres>, #[cfg(not(any()))] order: Json<Order>) -> Result<(), sqlx::Error> {
    assert!(order.0.amount > 0);
    sqlx::query("UPDATE accounts SET balance = 0").execute(&mut **tx).await?;
    Ok(())
}

fn main() {}
