use inbox_runtime::{Json, idempotent_consumer};
use sqlx::{Postgres, Transaction};

pub struct Raw;

#[idempotent_consumer(name = "billing")]
async fn charge(tx: &mut Transaction<'_, Postgres>, Json(raw): Json<Raw>) -> Result<(), sqlx::Error> {
    drop(raw);
    sqlx::query("UPDATE accounts SET balance = 0").execute(&mut **tx).await?;
    Ok(())
}

fn main() {}
