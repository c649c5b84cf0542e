use inbox_runtime::idempotent_consumer;

#[idempotent_consumer(name = "billing")]
async fn charge() -> Result<(), sqlx::Error> {
    Ok(())
}

fn main() {}
