//! What a broker and a runner owe each other, on the in-memory broker: nothing is told before the commit, and nothing is lost.
#![allow(missing_docs, unreachable_pub, unnameable_types, reason = "a test")]

mod contract {
    mod delivery;
    mod hangs;
    mod leases;
    mod memory;
    mod order;
    mod routing;
    mod support;
}
