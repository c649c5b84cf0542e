use clap::{Args, Parser, Subcommand};

use crate::protocol::Mode;

/// Delivers orders at least once to a worker process that is killed at random moments
///
/// The worker gets SIGKILL and is started again until everything is acked; then every balance is
/// compared with what it has to be.
///
/// Two consumers want every order: `billing` credits an account, `inventory` takes units from stock.
/// Some orders are published twice, and what a killed worker held comes again, in any order.
/// Without flags it needs nothing: it makes an SQLite database in a temporary directory and
/// removes it afterwards.
///
/// The three counter-examples do without (part of) the inbox and fail on purpose: they exit with 0
/// when their fault shows.
///
/// The last line is for scripts, as in
/// `lost=0 doubled=0 kills=24 deliveries=13313 applied=20000 duplicates=5114`.
#[derive(Debug, Parser)]
#[command(name = "billing", version, args_conflicts_with_subcommands = true, disable_help_subcommand = true, verbatim_doc_comment)]
pub(crate) struct Options {
    /// Run on this PostgreSQL instead of SQLite, as in `postgres://user:password@localhost/shop`
    ///
    /// It works in a schema of its own, `inbox_example_..`, which it creates and drops;
    /// your tables are not touched. The role needs the privilege CREATE on the database.
    #[arg(long, value_name = "URL", verbatim_doc_comment)]
    pub(crate) database_url: Option<String>,

    #[command(flatten)]
    pub(crate) counter_example: CounterExample,

    /// How many different orders there are [default: 10000; with a counter-example 2000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) events: Option<u32>,

    /// How often the worker is killed at least.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub(crate) kills: u32,

    /// Makes the orders and the plan of the kills: the same seed, the same plan.
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub(crate) seed: u64,

    #[command(subcommand)]
    pub(crate) role: Option<Role>,
}

#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct CounterExample {
    /// Counter-example: handlers that work and then ack, without an inbox: what is charged twice.
    #[arg(long)]
    without_inbox: bool,

    /// Counter-example: the skip is in a second store: work doubled and work lost
    ///
    /// A file stands for Redis, outside of the transaction. Runs both orders, one after the other:
    /// marked after the work, which doubles, and marked before the work, which loses.
    #[arg(long, verbatim_doc_comment)]
    skip_elsewhere: bool,

    /// Counter-example: the ack is sent before the commit: what is dropped in silence.
    #[arg(long)]
    ack_first: bool,
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum Role {
    /// What is killed; started by the example itself.
    #[command(hide = true)]
    Worker,
}

impl Options {
    /// What to run, one after the other.
    pub(crate) fn modes(&self) -> &'static [Mode] {
        match self.counter_example {
            CounterExample { without_inbox: true, .. } => &[Mode::WithoutInbox],
            CounterExample { skip_elsewhere: true, .. } => &[Mode::MarkAfterWork, Mode::MarkBeforeWork],
            CounterExample { ack_first: true, .. } => &[Mode::AckFirst],
            CounterExample { without_inbox: false, skip_elsewhere: false, ack_first: false } => &[Mode::Inbox],
        }
    }

    pub(crate) fn events(&self) -> u32 {
        let usual = if self.modes() == [Mode::Inbox] { 10_000 } else { 2_000 };
        self.events.unwrap_or(usual)
    }
}
