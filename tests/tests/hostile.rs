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

use std::{sync::Arc, time::Duration};

use inbox_runtime::{Inbox, sqlite};
use inbox_tests::database;
use sqlx::sqlite::SqliteConnectOptions;

use crate::{consumers::VICTIM, field::Field};

/// Schedules that run at the same time.
const AT_ONCE: usize = 6;

/// How long a body may run; a hang is far longer. Not so short that a busy machine cuts every body: then the run would go on for ever.
const POSTGRES_LIMIT: Duration = Duration::from_millis(250);
const SQLITE_LIMIT: Duration = Duration::from_millis(150);

#[tokio::test(flavor = "multi_thread")]
async fn postgres_holds_through_random_schedules() {
    let options = database::bare_postgres().await;
    let workers = database::postgres_pool(options.clone().application_name(VICTIM), 64).await;
    let side = database::postgres_pool(options, 8).await;
    let inbox = || Inbox::builder(workers.clone()).body_timeout(POSTGRES_LIMIT).build().expect("an inbox");
    let field = Arc::new(Field::new([inbox(), inbox()], side).await);
    run::all(vec![field; AT_ONCE]).await;
}

/// Each on a file of its own, since a file has one writer at a time.
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_holds_through_random_schedules() {
    let mut fields = Vec::new();
    let mut files = Vec::new();
    for _ in 0..AT_ONCE {
        let (side, dir) = database::sqlite_with(4).await;
        let file = dir.path().join("inbox.db");
        // A writer for each of the two, as in two processes.
        let inbox = async || {
            let pool = sqlite::pool_options().connect_with(sqlite::durable(SqliteConnectOptions::new().filename(&file))).await;
            Inbox::builder(pool.expect("a pool")).body_timeout(SQLITE_LIMIT).build().expect("an inbox")
        };
        fields.push(Arc::new(Field::new([inbox().await, inbox().await], side).await));
        files.push(dir);
    }
    run::all(fields).await;
}
