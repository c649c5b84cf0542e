use inbox_runtime::idempotent_consumer;

#[idempotent_consumer(name = "billing")]
pub struct Charge {
    pub amount: i64,
}

fn main() {}
