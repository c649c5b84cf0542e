use inbox_runtime::idempotent_consumer;

#[idempotent_consumer(name = "billing")]
async fn charge(tx: &mut String) -> Result<(), sqlx::Error> {
    tx.push('a');
    Ok(())
}

fn main() {}
