use inbox_runtime::{Json, idempotent_consumer};
use sqlx::{Postgres, Transaction};

#[idempotent_consumer(name = "billing")]
async fn charge<T: Send>(tx: &mut Transaction<'_, Postgres>, event: Json<T>) -> Result<(), sqlx::Error> {
    drop(event);
    sqlx::query("UPDATE accounts SET balance = 0").execute(&mut **tx).await?;
    Ok(())
}

fn main() {}
