use inbox_runtime::{Json, idempotent_consumer};
use sqlx::{Postgres, Transaction};

#[idempotent_consumer(name = "billing")]
async fn charge(tx: &mut Transaction<'_, Postgres>, Json(order): Json<Ordre>) -> Result<(), sqlx::Error> {
    drop(order);
    sqlx::query("UPDATE accounts SET balance = 0").execute(&mut **tx).await?;
    Ok(())
}

fn main() {}
