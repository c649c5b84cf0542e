use inbox_runtime::idempotent_consumer;
use sqlx::{Postgres, Transaction};

#[idempotent_consumer(nmae = "billing")]
async fn charge(tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE accounts SET balance = 0").execute(&mut **tx).await?;
    Ok(())
}

// Every name is there in spite of the mistake.
pub async fn call(pool: &sqlx::PgPool, id: inbox_runtime::MessageId) {
    let _ = (charge::NAME, charge::registration());
    let _ = charge(pool, id).await;
}

fn main() {}
