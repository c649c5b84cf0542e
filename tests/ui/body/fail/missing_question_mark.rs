use inbox_runtime::idempotent_consumer;
use sqlx::{Postgres, Transaction};

#[idempotent_consumer(name = "billing")]
async fn charge(tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    let rows: u64 = sqlx::query("UPDATE accounts SET balance = 0").execute(&mut **tx).await.rows_affected();
    assert_eq!(rows, 1);
    Ok(())
}

fn main() {}
