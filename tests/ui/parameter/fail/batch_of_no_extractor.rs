use inbox_runtime::idempotent_consumer;
use sqlx::{Postgres, Transaction};

struct Order;

#[idempotent_consumer(name = "ledger", batch = 500)]
async fn post(tx: &mut Transaction<'_, Postgres>, orders: Vec<Order>) -> Result<(), sqlx::Error> {
    drop(orders);
    sqlx::query("UPDATE accounts SET balance = 0").execute(&mut **tx).await?;
    Ok(())
}

fn main() {}
