//! The heart on SQLite files: claim, body, guard, commit, and the facts that it has to respect.
#![allow(missing_docs, unreachable_pub, unnameable_types, reason = "a test")]

mod sqlite {
    mod busy;
    mod copies;
    mod cut;
    mod escapes;
    mod failures;
    mod full;
    mod group;
    mod migrate;
    mod runner;
    mod support;
    mod transaction;
    mod unsound;
}
