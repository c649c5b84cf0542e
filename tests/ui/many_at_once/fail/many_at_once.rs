use inbox_runtime::{Json, idempotent_consumer};
use sqlx::PgTransaction;

#[idempotent_consumer(nmae = "billing", timeout = "soon")]
fn charge<T>(tx: PgTransaction<'_>, order: &Json<T>) {
    drop((tx, order));
}

fn main() {}
