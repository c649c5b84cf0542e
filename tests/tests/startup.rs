//! What can only be checked at the start: which consumers are there, and whether they fit each other, the dispatcher and the subscription.
#![allow(missing_docs, unreachable_pub, unnameable_types, reason = "a test")]

mod startup {
    mod linked;
    mod names;
    mod problems;
    mod selection;
    mod support;
    mod topics;
}
