//! Random schedules of messages, redeliveries, failures, panics, timeouts and killed sessions: each message is applied once, and
//! nothing is acked that is not committed. Which attempt does what comes from a seed; who meets whom does not.
#![allow(missing_docs, reason = "tests")]

#[path = "hostile/consumers.rs"]
mod consumers;
#[path = "hostile/field.rs"]
mod field;
#[path = "hostile/plan.rs"]
mod plan;
#[path = "hostile/run.rs"]
mod run;

use inbox_runtime::{Inbox, sqlite};
use inbox_tests::database;
use sqlx::sqlite::SqliteConnectOptions;

use crate::{consumers::VICTIM, field::Field, plan::BODY_LIMIT};

#[tokio::test(flavor = "multi_thread")]
async fn postgres_holds_through_random_schedules() {
    let options = database::bare_postgres().await;
    let workers = database::postgres_pool(options.clone().application_name(VICTIM), 24).await;
    let side = database::postgres_pool(options, 8).await;
    let inbox = || Inbox::builder(workers.clone()).body_timeout(BODY_LIMIT).build().expect("an inbox");
    run::all(Field::new([inbox(), inbox()], side).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_holds_through_random_schedules() {
    let (side, dir) = database::sqlite_with(4).await;
    let file = dir.path().join("inbox.db");
    // A writer for each of the two, as in two processes.
    let inbox = async || {
        let pool = sqlite::pool_options().connect_with(sqlite::durable(SqliteConnectOptions::new().filename(&file))).await;
        Inbox::builder(pool.expect("a pool")).body_timeout(BODY_LIMIT).build().expect("an inbox")
    };
    run::all(Field::new([inbox().await, inbox().await], side).await).await;
}
