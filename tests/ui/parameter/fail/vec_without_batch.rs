use inbox_runtime::{Json, idempotent_consumer};
use sqlx::{Postgres, Transaction};

#[derive(serde::Deserialize)]
struct Order;

#[idempotent_consumer(name = "ledger")]
async fn post(tx: &mut Transaction<'_, Postgres>, orders: Vec<Json<Order>>) -> Result<(), sqlx::Error> {
    drop(orders);
    sqlx::query("UPDATE accounts SET balance = 0").execute(&mut **tx).await?;
    Ok(())
}

fn main() {}
