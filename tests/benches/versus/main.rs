//! What a message costs here, and by hand. See `--help`.
#![allow(missing_docs, unreachable_pub, unnameable_types, reason = "a benchmark")]

mod by_hand;
mod delay;
mod feed;
mod field;
mod measure;
mod ours;
mod report;

use std::{num::NonZeroU16, time::Duration};

use anyhow::Context;
use inbox_runtime::Durability;

use crate::{
    by_hand::{OnConnections, OnPool},
    field::{Field, Mix},
    measure::{Plan, compare},
    ours::Ours,
    report::Report,
};

const HELP: &str = "\
cargo bench -p inbox-tests --bench versus -- [--quick] [--rounds N] [--only NAME]

    Compares what this crate does per message with sqlx written by hand, on the PostgreSQL that DATABASE_URL names:
        eval \"$(INBOX_SERVICES_DIR=/dev/shm/inbox tests/services up postgres)\"    in memory
        eval \"$(tests/services up postgres)\"                                      on the disk of this checkout
    Every figure is a ratio to sqlx with a pool, measured in pairs within one run, whose sides take turns in going first.
    The median is given, and in brackets the lowest and the highest. Writes the table to target/versus.md.

    --quick       few messages and rounds: under five minutes
    --rounds N    pairs for each figure; 9, or 5 with --quick
    --only NAME   one figure
    --alone SIDE  of `one` and its like, only `ours` or `hand`, again and again, for a profiler
";

#[tokio::main(worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if args.iter().any(|arg| arg == "--help") {
        print!("{HELP}");
        return Ok(());
    }
    let value = |name: &str| args.iter().position(|arg| arg == name).and_then(|i| args.get(i + 1)).cloned();
    let quick = args.iter().any(|arg| arg == "--quick");
    let rounds = value("--rounds").map(|n| n.parse()).transpose()?.unwrap_or(if quick { 5 } else { 9 });
    let only = value("--only");
    let url = std::env::var("DATABASE_URL").context("DATABASE_URL is not set; see --help")?;
    let plan = Plan { rounds, scale: if quick { 1 } else { 4 } };
    let mut report = Report::default();
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);

    if wanted("trips") {
        let field = Field::new(&url).await?;
        let (fresh, duplicates, by_hand) = field.trips().await?;
        report.count("trips", fresh);
        report.count("dup_trips", duplicates);
        report.count("hand_trips", by_hand);
    }
    for (name, workers, delay, messages) in
        [("one", 1, 0, 1_500), ("one_1ms", 1, 1_000, 250), ("four", 4, 0, 3_000), ("sixteen", 16, 0, 4_000)]
    {
        if !wanted(name) {
            continue;
        }
        let field = Field::new(&url).await?.with_delay(Duration::from_micros(delay))?;
        let workers = NonZeroU16::new(workers).context("no worker")?;
        match value("--alone").as_deref() {
            Some("ours") => return measure::alone(&Ours::new(&field, workers).await?, messages, rounds).await,
            Some("hand") => return measure::alone(&OnPool::new(&field, workers).await?, messages, rounds).await,
            _ => {}
        }
        let pair = compare(plan, &OnPool::new(&field, workers).await?, &Ours::new(&field, workers).await?, messages, Mix::Fresh).await?;
        report.pair(name, &pair);
        if name == "one" {
            report.value("cpu", pair.cpu());
            let grouped = Ours::grouped(&field, workers).await?;
            report.pair("grouped", &compare(plan, &OnPool::new(&field, workers).await?, &grouped, messages, Mix::Fresh).await?);
            let batch = Ours::batch(&field, workers).await?;
            report.pair("batch", &compare(plan, &OnPool::new(&field, workers).await?, &batch, 4 * messages, Mix::Fresh).await?);
            let kept = OnConnections::new(&field, workers).await?;
            report.pair("one_connection", &compare(plan, &OnPool::new(&field, workers).await?, &kept, messages, Mix::Fresh).await?);
            let ours = Ours::new(&field, workers).await?;
            report.pair("dup_10", &compare(plan, &OnPool::new(&field, workers).await?, &ours, messages, Mix::TenPercent).await?);
            report.pair("dup_100", &compare(plan, &OnPool::new(&field, workers).await?, &ours, messages, Mix::Duplicates).await?);
        }
    }
    for (name, workers, durability, messages) in [
        ("flush2ms", 1, Durability::Commit, 300),
        ("before_ack_flush2ms", 1, Durability::BeforeAck, 300),
        ("before_ack_flush2ms_four", 4, Durability::BeforeAck, 1_000),
    ] {
        if !wanted(name) {
            continue;
        }
        let field = Field::new(&url).await?.with_flush(Duration::from_millis(2));
        let workers = NonZeroU16::new(workers).context("no worker")?;
        let ours = Ours::new(&field, workers).await?.durability(durability);
        report.pair(name, &compare(plan, &OnPool::new(&field, workers).await?, &ours, messages, Mix::Fresh).await?);
        if name == "flush2ms" {
            let grouped = Ours::grouped(&field, workers).await?;
            let batch = Ours::batch(&field, workers).await?;
            report.pair("batch_flush2ms", &compare(plan, &OnPool::new(&field, workers).await?, &batch, 4 * messages, Mix::Fresh).await?);
            report.pair("grouped_flush2ms", &compare(plan, &OnPool::new(&field, workers).await?, &grouped, messages, Mix::Fresh).await?);
        }
    }
    report.finish("target/versus.md")
}
