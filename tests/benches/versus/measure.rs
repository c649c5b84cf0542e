//! Two sides in turn, on the same number of messages.

use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::field::{Batch, Field, Mix};

/// One way to handle messages.
pub(crate) trait Side {
    /// Where its effects are.
    fn field(&self) -> &Field;

    /// Handles that many.
    async fn round(&self, messages: usize, mix: Mix) -> anyhow::Result<Took>;
}

/// One in this process.
pub(crate) trait Local {
    fn place(&self) -> &Field;

    /// Messages for it; duplicates among them are known to its database already.
    async fn prepare(&self, messages: usize, mix: Mix) -> anyhow::Result<Batch>;

    /// Handles them all.
    async fn run(&self, batch: Batch) -> anyhow::Result<()>;
}

impl<L: Local> Side for L {
    fn field(&self) -> &Field {
        self.place()
    }

    async fn round(&self, messages: usize, mix: Mix) -> anyhow::Result<Took> {
        let batch = self.prepare(messages, mix).await?;
        let (begun, cpu) = (Instant::now(), cpu_time("self")?);
        self.run(batch).await?;
        let (time, cpu) = (begun.elapsed(), cpu_time("self")?.saturating_sub(cpu));
        Ok(Took { time: each(time, messages), cpu: Some(each(cpu, messages)), applied: mix.fresh(messages) })
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    pub(crate) scale: usize,
}

/// What one run took, for each message, in seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Took {
    pub(crate) time: f64,
    /// Of the client's process, where it lives long enough to be asked.
    pub(crate) cpu: Option<f64>,
    /// How many effects must be there now that were not before.
    pub(crate) applied: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Pairs {
    base: Vec<Took>,
    other: Vec<Took>,
}

/// The middle of several, with the lowest and the highest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |i: usize| values.get(i).copied().unwrap_or(f64::NAN);
        Self { low: at(0), median: at(values.len() / 2), high: at(values.len().saturating_sub(1)) }
    }

    /// Of what is counted, not measured.
    pub(crate) const fn exact(value: f64) -> Self {
        Self { low: value, median: value, high: value }
    }
}

impl Pairs {
    /// How many times as fast.
    pub(crate) fn speed(&self) -> Spread {
        Spread::of(self.base.iter().zip(&self.other).map(|(base, other)| base.time / other.time).collect())
    }

    /// How much of the processor's time in the client.
    pub(crate) fn cpu(&self) -> Option<Spread> {
        let ratios = self.base.iter().zip(&self.other).map(|(base, other)| Some(other.cpu? / base.cpu?));
        ratios.collect::<Option<Vec<f64>>>().map(Spread::of)
    }

    /// Microseconds a message: the first side's, the second's.
    pub(crate) fn micros(&self) -> (f64, f64) {
        let median = |all: &[Took]| Spread::of(all.iter().map(|took| took.time * 1e6).collect()).median;
        (median(&self.base), median(&self.other))
    }

    /// Microseconds of the processor in the client, a message.
    pub(crate) fn cpu_micros(&self) -> (Option<f64>, Option<f64>) {
        let median = |all: &[Took]| {
            let micros: Option<Vec<f64>> = all.iter().map(|took| Some(took.cpu? * 1e6)).collect();
            micros.map(|micros| Spread::of(micros).median)
        };
        (median(&self.base), median(&self.other))
    }
}

pub(crate) async fn compare(plan: Plan, base: &impl Side, other: &impl Side, messages: usize, mix: Mix) -> anyhow::Result<Pairs> {
    let messages = messages * plan.scale;
    let before = (base.field().effects().await?, other.field().effects().await?);
    let mut pairs = Pairs::default();
    // Once for warmth.
    let mut applied = (base.round(messages / 10, mix).await?.applied, other.round(messages / 10, mix).await?.applied);
    for round in 0..plan.rounds {
        if round % 2 == 0 {
            pairs.base.push(base.round(messages, mix).await?);
            pairs.other.push(other.round(messages, mix).await?);
        } else {
            pairs.other.push(other.round(messages, mix).await?);
            pairs.base.push(base.round(messages, mix).await?);
        }
    }
    applied.0 += pairs.base.iter().map(|took| took.applied).sum::<usize>();
    applied.1 += pairs.other.iter().map(|took| took.applied).sum::<usize>();
    if std::ptr::eq(base.field(), other.field()) {
        applied = (applied.0 + applied.1, applied.0 + applied.1);
    }
    // A side that is fast because it left something out, or did it twice, has no figure.
    let found = (base.field().effects().await? - before.0, other.field().effects().await? - before.1);
    ensure!(found == applied, "effects of the first and the second side: {found:?}, and there should be {applied:?}");
    Ok(pairs)
}

/// For a profiler.
pub(crate) async fn alone(side: &impl Side, messages: usize, rounds: usize) -> anyhow::Result<()> {
    for _ in 0..rounds {
        let took = side.round(messages, Mix::Fresh).await?;
        println!("{:.0} µs a message, {:.0} of CPU", took.time * 1e6, took.cpu.unwrap_or(f64::NAN) * 1e6);
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a few thousand")]
pub(crate) fn each(time: Duration, messages: usize) -> f64 {
    time.as_secs_f64() / messages as f64
}

/// Of a process of ours; the server is another one.
pub(crate) fn cpu_time(process: &str) -> anyhow::Result<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|field| field.parse::<u64>().ok()).unwrap_or_default();
    // User and system time, in hundredths of a second.
    Ok(Duration::from_millis((ticks(11) + ticks(12)) * 10))
}
