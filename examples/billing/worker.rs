//! The worker process: what is killed. It starts as any service would, and keeps nothing from its former life but the database.

use std::{str::FromStr, sync::Arc};

use inbox_runtime::{Dispatcher, IdFrom, Inbox, InboxDatabase, Intake, Registration, Runner};
use sqlx::{postgres::PgConnectOptions, sqlite::SqliteConnectOptions};
use tokio::task::JoinSet;

use crate::{
    Error,
    handlers::{postgres, sqlite},
    pipe::{Pipe, PipeBroker},
    protocol::Mode,
    tally::Tally,
    wrong,
};

/// A runner takes one message at a time; several of them keep the database busy, and meet the same message at the same time now and then.
const RUNNERS: usize = 4;

pub(crate) async fn run() -> Result<(), Error> {
    // Warnings of the inbox, on standard error; standard output belongs to the pipe.
    tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::WARN).with_writer(std::io::stderr).init();
    let (pipe, job) = Pipe::open().await?;
    let pipe = Arc::new(pipe);
    let ended = match (job.mode, &job.schema) {
        (Mode::Inbox, Some(schema)) => {
            let pool = inbox_runtime::postgres::pool_options().connect_with(PgConnectOptions::from_str(&job.url)?).await?;
            let inbox = Inbox::builder(pool).schema(schema).build()?;
            serve(inbox, [postgres::credit_account::registration(), postgres::take_from_stock::registration()], &pipe).await
        }
        (Mode::Inbox, None) => {
            let options = inbox_runtime::sqlite::durable(SqliteConnectOptions::from_str(&job.url)?);
            let pool = inbox_runtime::sqlite::pool_options().connect_with(options).await?;
            serve(Inbox::new(&pool), [sqlite::credit_account::registration(), sqlite::take_from_stock::registration()], &pipe).await
        }
        (_, _) => wrong::run(&job, &pipe).await,
    };
    // Once the broker is gone or has no more, there is nobody to report to.
    if pipe.over.is_cancelled() { Ok(()) } else { ended }
}

async fn serve<DB: InboxDatabase>(inbox: Inbox<DB>, consumers: [Registration; 2], pipe: &Arc<Pipe>) -> Result<(), Error> {
    inbox.migrate().await?;
    // A program on one database does not need to register anything: its consumers are found by themselves. This one has each of them twice.
    let dispatcher = Dispatcher::builder(&inbox).without_linked();
    let dispatcher = consumers.into_iter().fold(dispatcher, |builder, consumer| builder.register(consumer)).build().await?;
    let broker = PipeBroker { pipe: Arc::clone(pipe), tally: Tally::install()? };
    let mut runners = JoinSet::new();
    for _ in 0..RUNNERS {
        let intake = Intake::new("orders", IdFrom::header("event-id")).topics(["orders"]);
        runners.spawn(Runner::new(dispatcher.clone(), broker.clone(), intake).stop_on(pipe.over.clone()).run());
    }
    while let Some(ended) = runners.join_next().await {
        ended??;
    }
    Ok(())
}
