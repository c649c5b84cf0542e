use inbox_runtime::{Json, idempotent_consumer};
use sqlx::{Postgres, Transaction};

#[derive(serde::Deserialize)]
pub struct Order {
    pub amount: i64,
}

#[idempotent_consumer(name = "billing")]
async fn charge(order: Json<Order>, tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    let Json(Order { amount }) = order;
    assert!(amount > 0);
    sqlx::query("UPDATE accounts SET balance = 0").execute(&mut **tx).await?;
    Ok(())
}

fn main() {}
