#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! The ways to an id, and what is derived from it.

use inbox_runtime::{InvalidId, MessageId, Uuid};

/// From what a producer sends.
///
/// # Errors
///
/// What is no id.
pub fn ids(uuid: Uuid) -> Result<[MessageId; 4], InvalidId> {
    let parsed: MessageId = "0198c5c4-7b4e-7c1a-a1bb-5a3d1f0c2e77".parse()?;
    let other = MessageId::parse("{0198C5C4-7B4E-7C1A-A1BB-5A3D1F0C2E78}")?;
    Ok([parsed, other, MessageId::from_text("checkout", "order-42/3")?, MessageId::try_from(uuid)?])
}

fn main() {
    let ids = ids(Uuid::from_u128(42)).unwrap();
    assert_eq!(ids[0].derive("billing", 0), ids[0].derive("billing", 0));
    assert_ne!(ids[0].derive("billing", 0), ids[0].derive("billing", 1));
}
