use inbox_runtime::idempotent_consumer;
use sqlx::{Postgres, Transaction};

pub struct Oops;

#[idempotent_consumer(name = "billing")]
async fn charge(tx: &mut Transaction<'_, Postgres>) -> Result<(), Oops> {
    drop(tx);
    Err(Oops)
}

fn main() {}
