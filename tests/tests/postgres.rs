//! The heart on PostgreSQL: claim, body, guard, commit, and the facts that it has to respect.
#![allow(missing_docs, unreachable_pub, unnameable_types, reason = "a test")]

mod postgres {
    mod cancelled;
    mod claims;
    mod contention;
    mod durability;
    mod escapes;
    mod failures;
    mod identity;
    mod migrate;
    mod nested;
    mod poison;
    mod privileges;
    mod runner;
    mod session;
    mod several;
    mod support;
    mod telemetry;
    mod transaction;
    mod unknown_commit;
    mod unsound;
    mod waiting;
}
