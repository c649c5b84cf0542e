//! Only `ack` and `retry` make one.
use inbox_runtime::broker::{Delivery, Lease, Settle, Verdict};

pub fn forged<H: Clone>(delivery: &Delivery<H>) -> Settle<H> {
    Settle::new(delivery.handle().clone(), Lease::new(), Verdict::Done)
}

fn main() {}
