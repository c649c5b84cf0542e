use inbox_runtime::{Json, idempotent_consumer};
use sqlx::{Postgres, Transaction};

#[derive(serde::Deserialize)]
struct Order;

#[idempotent_consumer(name = "ledger", batch = 500)]
async fn post(tx: &mut Transaction<'_, Postgres>, order: Json<Order>) -> Result<(), sqlx::Error> {
    drop(order);
    sqlx::query("UPDATE accounts SET balance = 0").execute(&mut **tx).await?;
    Ok(())
}

fn main() {}
