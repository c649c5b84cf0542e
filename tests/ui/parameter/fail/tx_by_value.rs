use inbox_runtime::idempotent_consumer;
use sqlx::PgTransaction;

#[idempotent_consumer(name = "billing")]
async fn charge(tx: PgTransaction<'_>) -> Result<(), sqlx::Error> {
    tx.commit().await
}

fn main() {}
