//! Which id a message has: the same for every copy of one event, never the same for two events, and never made up.
#![allow(missing_docs, unreachable_pub, unnameable_types, reason = "a test")]

mod identity {
    mod batch;
    mod decode;
    mod golden;
    mod parse;
    mod places;
    mod support;
}
