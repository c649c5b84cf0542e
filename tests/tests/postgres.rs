//! The heart on PostgreSQL: claim, body, guard, commit, and the facts that it has to respect.
#![allow(missing_docs, unreachable_pub, unnameable_types, reason = "a test")]

mod postgres {
    mod batch;
    mod cancelled;
    mod claims;
    mod commit_guard;
    mod contention;
    mod dead_letters;
    mod durability;
    mod escapes;
    mod event_type;
    mod failures;
    mod group;
    mod identity;
    mod kept;
    mod migrate;
    mod nested_begin;
    mod privileges;
    mod runner;
    mod session;
    mod support;
    mod telemetry;
    mod transaction;
    mod unknown_commit;
    mod unsound;
    mod waiting;
}
