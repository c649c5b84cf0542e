#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! `cfg` off removes the consumer and its registration, in both orders (E12).

use inbox_runtime::Registration;

#[cfg(any())]
#[inbox_runtime::idempotent_consumer(name = "above")]
async fn above(tx: &mut Nowhere) -> Missing {}

#[inbox_runtime::idempotent_consumer(name = "below")]
#[cfg(any())]
async fn below(tx: &mut Nowhere) -> Missing {
    nothing()
}

#[inbox_runtime::idempotent_consumer(name = "conditional")]
#[cfg_attr(all(), cfg(any()))]
async fn conditional(tx: &mut Nowhere) -> Missing {
    nothing()
}

fn main() {
    assert_eq!(inbox_runtime::__private::inventory::iter::<Registration>().count(), 0);
}
