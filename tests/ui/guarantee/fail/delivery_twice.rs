//! Settled once, either way.
use std::time::Duration;

use inbox_runtime::broker::{Delivery, Receipt, Settle};

pub fn both<H>(delivery: Delivery<H>, receipts: Vec<Receipt>) -> (Settle<H>, bool) {
    let again = delivery.retry(Duration::ZERO);
    let acked = delivery.ack(receipts).is_ok();
    (again, acked)
}

fn main() {}
