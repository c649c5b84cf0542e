//! `Durability::BeforeAck` on a database that is killed with its unflushed log: what was acked is there, what was lost comes again. Each rule
//! is taken out once, to see that something is lost then.
#![allow(missing_docs, unreachable_pub, unnameable_types, reason = "a test")]

mod flushed {
    mod barrier;
    mod duplicate;
    mod session;
    mod support;
}
