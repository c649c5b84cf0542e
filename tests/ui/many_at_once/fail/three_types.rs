use inbox_runtime::idempotent_consumer;

pub struct Order;

// What only the compiler knows: three wrong types, three errors.
#[idempotent_consumer(name = "billing")]
async fn charge(tx: &mut String, order: Order) -> bool {
    tx.push('a');
    drop(order);
    true
}

fn main() {}
