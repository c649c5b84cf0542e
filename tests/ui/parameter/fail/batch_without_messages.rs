use inbox_runtime::{State, idempotent_consumer};
use sqlx::{Postgres, Transaction};

#[idempotent_consumer(name = "ledger", batch = 500)]
async fn post(tx: &mut Transaction<'_, Postgres>, rate: State<u32>) -> Result<(), sqlx::Error> {
    drop(rate);
    sqlx::query("UPDATE accounts SET balance = 0").execute(&mut **tx).await?;
    Ok(())
}

fn main() {}
