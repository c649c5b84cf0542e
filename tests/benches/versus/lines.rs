//! Most of the figures: one side of ours, or one that is written otherwise, against sqlx with a pool.

use std::{num::NonZeroU16, time::Duration};

use anyhow::Context;
use inbox_runtime::Durability;

use crate::{
    by_hand::{OnConnections, OnPool},
    field::{Field, Mix},
    measure::{self, Pairs, Plan, compare},
    options::{Alone, Options},
    ours::Ours,
    report::{Figure, Report},
};

/// What is compared with the pool.
#[derive(Debug, Clone, Copy)]
enum Way {
    Runner,
    Grouped,
    Batch,
    BeforeAck,
    /// By hand as well, on a connection for each worker.
    Connections,
}

struct Line {
    key: &'static str,
    about: &'static str,
    way: Way,
    workers: u16,
    mix: Mix,
    /// Added to each round trip.
    network: Duration,
    /// What each flush of the log takes longer.
    flush: Duration,
    messages: usize,
}

const ONE: Line = Line {
    key: "one",
    about: "One worker",
    way: Way::Runner,
    workers: 1,
    mix: Mix::Fresh,
    network: Duration::ZERO,
    flush: Duration::ZERO,
    messages: 1_500,
};

const FLUSH: Line = Line { flush: Duration::from_millis(2), messages: 300, ..ONE };

const LINES: &[Line] = &[
    ONE,
    Line { key: "one_1ms", about: "One worker, 1 ms of network", network: Duration::from_millis(1), messages: 250, ..ONE },
    Line { key: "four", about: "Four workers", workers: 4, messages: 3_000, ..ONE },
    Line { key: "sixteen", about: "Sixteen workers", workers: 16, messages: 4_000, ..ONE },
    Line { key: "grouped", about: "One worker, group = 100", way: Way::Grouped, ..ONE },
    Line { key: "grouped_four", about: "Four workers, group = 100", way: Way::Grouped, workers: 4, messages: 3_000, ..ONE },
    Line { key: "batch", about: "One worker, batch = 500, one statement for all", way: Way::Batch, messages: 6_000, ..ONE },
    Line { key: "dup_10", about: "One worker, a tenth are duplicates", mix: Mix::TenPercent, ..ONE },
    Line { key: "dup_100", about: "One worker, all are duplicates", mix: Mix::Duplicates, ..ONE },
    Line { key: "flush2ms", about: "One worker, a flush takes 2 ms more", ..FLUSH },
    Line { key: "grouped_flush2ms", about: "One worker, group = 100, a flush takes 2 ms more", way: Way::Grouped, ..FLUSH },
    Line { key: "batch_flush2ms", about: "One worker, batch = 500, a flush takes 2 ms more", way: Way::Batch, messages: 1_000, ..FLUSH },
    Line { key: "before_ack_flush2ms", about: "One worker, Durability::BeforeAck, a flush takes 2 ms more", way: Way::BeforeAck, ..FLUSH },
    Line {
        key: "before_ack_flush2ms_four",
        about: "Four workers, Durability::BeforeAck, a flush takes 2 ms more",
        way: Way::BeforeAck,
        workers: 4,
        messages: 1_000,
        ..FLUSH
    },
    Line { key: "one_connection", about: "By hand on one connection, no pool", way: Way::Connections, ..ONE },
    Line {
        key: "one_connection_four",
        about: "By hand, four workers with a connection each",
        way: Way::Connections,
        workers: 4,
        messages: 3_000,
        ..ONE
    },
    Line {
        key: "one_connection_sixteen",
        about: "By hand, sixteen workers with a connection each",
        way: Way::Connections,
        workers: 16,
        messages: 4_000,
        ..ONE
    },
];

impl Line {
    /// `cpu` comes with the first line.
    fn keys(&self) -> Vec<&'static str> {
        if self.key == ONE.key { vec![self.key, "cpu"] } else { vec![self.key] }
    }

    fn workers(&self) -> anyhow::Result<NonZeroU16> {
        NonZeroU16::new(self.workers).context("no worker")
    }

    async fn field(&self, url: &str) -> anyhow::Result<Field> {
        let field = Field::new(url).await?;
        let field = if self.network.is_zero() { field } else { field.with_network(self.network)? };
        Ok(if self.flush.is_zero() { field } else { field.with_flush(self.flush) })
    }

    async fn pairs(&self, plan: Plan, field: &Field) -> anyhow::Result<Pairs> {
        let workers = self.workers()?;
        let pool = OnPool::new(field, workers).await?;
        match self.way {
            Way::Runner | Way::Grouped | Way::Batch | Way::BeforeAck => {
                compare(plan, &pool, &self.ours(field).await?, self.messages, self.mix).await
            }
            Way::Connections => compare(plan, &pool, &OnConnections::new(field, workers).await?, self.messages, self.mix).await,
        }
    }

    async fn ours<'f>(&self, field: &'f Field) -> anyhow::Result<Ours<'f>> {
        let workers = self.workers()?;
        Ok(match self.way {
            Way::Grouped => Ours::grouped(field, workers).await?,
            Way::Batch => Ours::batch(field, workers).await?,
            Way::BeforeAck => Ours::new(field, workers).await?.durability(Durability::BeforeAck),
            Way::Runner | Way::Connections => Ours::new(field, workers).await?,
        })
    }
}

pub(crate) async fn compare_all(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    for line in LINES.iter().filter(|line| options.wants(&line.keys())) {
        report.begin(line.key);
        let field = line.field(&options.url).await?;
        let pairs = line.pairs(options.plan, &field).await?;
        report.add(Figure::speed(line.key, line.about, &pairs));
        if line.key == ONE.key
            && let Some(cpu) = pairs.cpu()
        {
            report.add(Figure::count("cpu", "CPU time of the client a message, as part of that by hand", cpu));
        }
        field.remove().await?;
    }
    Ok(())
}

pub(crate) async fn alone(options: &Options) -> anyhow::Result<()> {
    let line = LINES.iter().find(|line| options.wants(&line.keys())).context("there is no such line to run alone")?;
    let (field, rounds) = (line.field(&options.url).await?, options.plan.rounds);
    match options.alone {
        Some(Alone::Ours) => measure::alone(&line.ours(&field).await?, line.messages, rounds).await?,
        _ => measure::alone(&OnPool::new(&field, line.workers()?).await?, line.messages, rounds).await?,
    }
    field.remove().await
}
