//! Ten thousand orders, delivered at least once to a worker process that is killed at random moments and started again until
//! everything is acked. Afterwards every balance is compared with what it has to be.
//!
//! Read first: `handlers/sqlite.rs` (what a user of the crate writes), `worker.rs` (how it is run), `pipe.rs` (an adapter for a broker).
//! `wrong.rs` holds the three ways that do not work. All else is the test bench: `queue.rs` is the broker, `supervisor.rs` kills.

mod bench;
mod events;
mod handlers;
mod options;
mod pipe;
mod place;
mod protocol;
mod queue;
mod report;
mod supervisor;
mod tally;
mod verdict;
mod worker;
mod wrong;

use std::process::ExitCode;

use clap::Parser;
use options::{Options, Role};

type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let done = match options.role {
        Some(Role::Worker) => worker::run().await.map(|()| true),
        None => tokio::select! {
            done = bench::run(&options) => done,
            error = interrupted() => Err(error),
        },
    };
    // Whatever happened: nothing of the example is left in somebody's database.
    place::clear_all().await;
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Ends the run in an orderly way; dropping it kills the worker.
async fn interrupted() -> Error {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return "interrupted".into();
        }
    }
    match tokio::signal::ctrl_c().await {
        Ok(()) => "interrupted".into(),
        Err(error) => error.into(),
    }
}
