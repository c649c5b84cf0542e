//! For one delivery.
use inbox_runtime::broker::{Delivery, Receipt};

pub fn both<H>(one: Delivery<H>, two: Delivery<H>, receipts: Vec<Receipt>) -> bool {
    one.ack(receipts).is_ok() && two.ack(receipts).is_ok()
}

fn main() {}
