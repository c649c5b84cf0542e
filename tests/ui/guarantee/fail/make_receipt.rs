//! Only the engine makes receipts, and none can be had twice.
use inbox_runtime::broker::{Proof, Receipt};

pub fn forged() -> Receipt {
    Receipt { ticket: 0, proof: Proof::Applied }
}

pub fn by_its_maker() -> Receipt {
    Receipt::new(0, Proof::Applied)
}

pub fn copied(receipt: &Receipt) -> Receipt {
    receipt.clone()
}

fn main() {}
