//! A process is killed at each named point of a message's life, and the same messages are delivered to another one: each is applied
//! once, and none was acked before its row was committed.
#![allow(missing_docs, reason = "tests")]

#[path = "crash/ledger.rs"]
mod ledger;
#[path = "crash/modes.rs"]
mod modes;
#[path = "crash/worker.rs"]
mod worker;

use crate::{
    ledger::{PgLedger, SqliteLedger},
    modes::{duplicate, fresh, other_process_waits, row, two_started_together},
};

#[tokio::test]
async fn a2_postgres_killed_at_each_point_of_a_fresh_message() {
    fresh(&PgLedger::new().await).await;
}

#[tokio::test]
async fn a2_postgres_killed_at_each_point_with_several_in_its_hands() {
    row(&PgLedger::new().await).await;
}

#[tokio::test]
async fn a2_sqlite_killed_at_each_point_with_several_in_its_hands() {
    row(&SqliteLedger::new().await).await;
}

#[tokio::test]
async fn a2_postgres_killed_at_each_point_of_a_duplicate() {
    duplicate(&PgLedger::new().await).await;
}

#[tokio::test]
async fn a2_postgres_killed_at_each_point_while_another_process_has_the_message() {
    // Before its claim, a process holds up nobody.
    other_process_waits(&PgLedger::new().await, &["after_claim", "after_body", "after_guard"]).await;
}

#[tokio::test]
async fn a2_postgres_two_started_together_and_one_killed_at_each_point() {
    two_started_together(&PgLedger::new().await).await;
}

#[tokio::test]
async fn a2_sqlite_killed_at_each_point_of_a_fresh_message() {
    fresh(&SqliteLedger::new().await).await;
}

#[tokio::test]
async fn a2_sqlite_killed_at_each_point_of_a_duplicate() {
    duplicate(&SqliteLedger::new().await).await;
}

#[tokio::test]
async fn a2_sqlite_killed_at_each_point_while_another_process_has_the_message() {
    other_process_waits(&SqliteLedger::new().await, &["after_claim", "after_body", "after_guard"]).await;
}

#[tokio::test]
async fn a2_sqlite_two_started_together_and_one_killed_at_each_point() {
    two_started_together(&SqliteLedger::new().await).await;
}
