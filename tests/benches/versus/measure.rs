//! Two sides in turn, on the same number of messages.

use std::time::{Duration, Instant};

use crate::field::{Batch, Mix};

/// One way to handle messages.
pub(crate) trait Side {
    /// Messages for it; duplicates among them are known to its database already.
    async fn prepare(&self, messages: usize, mix: Mix) -> anyhow::Result<Batch>;

    /// Handles them all.
    async fn run(&self, batch: Batch) -> anyhow::Result<()>;
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    pub(crate) scale: usize,
}

/// What one run took, for each message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Took {
    pub(crate) time: f64,
    pub(crate) cpu: f64,
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
}

impl Pairs {
    fn ratios(&self, of: impl Fn(&Took, &Took) -> f64) -> Spread {
        Spread::of(self.base.iter().zip(&self.other).map(|(base, other)| of(base, other)).collect())
    }

    /// How many times as fast.
    pub(crate) fn speed(&self) -> Spread {
        self.ratios(|base, other| base.time / other.time)
    }

    /// How much of the processor's time in this process.
    pub(crate) fn cpu(&self) -> Spread {
        self.ratios(|base, other| other.cpu / base.cpu)
    }

    /// Microseconds a message: the first side's, the second's.
    pub(crate) fn micros(&self) -> (Spread, Spread) {
        self.each(|took| took.time * 1e6)
    }

    /// Microseconds of the processor in this process, a message.
    pub(crate) fn cpu_micros(&self) -> (Spread, Spread) {
        self.each(|took| took.cpu * 1e6)
    }

    fn each(&self, of: impl Fn(&Took) -> f64) -> (Spread, Spread) {
        let spread = |all: &[Took]| Spread::of(all.iter().map(&of).collect());
        (spread(&self.base), spread(&self.other))
    }
}

pub(crate) async fn compare(plan: Plan, base: &impl Side, other: &impl Side, messages: usize, mix: Mix) -> anyhow::Result<Pairs> {
    let messages = messages * plan.scale;
    let mut pairs = Pairs::default();
    // Once for warmth.
    one(base, messages / 10, mix).await?;
    one(other, messages / 10, mix).await?;
    for round in 0..plan.rounds {
        if round % 2 == 0 {
            pairs.base.push(one(base, messages, mix).await?);
            pairs.other.push(one(other, messages, mix).await?);
        } else {
            pairs.other.push(one(other, messages, mix).await?);
            pairs.base.push(one(base, messages, mix).await?);
        }
    }
    Ok(pairs)
}

/// For a profiler.
pub(crate) async fn alone(side: &impl Side, messages: usize, rounds: usize) -> anyhow::Result<()> {
    for _ in 0..rounds {
        let took = one(side, messages, Mix::Fresh).await?;
        println!("{:.0} µs a message, {:.0} of CPU", took.time * 1e6, took.cpu * 1e6);
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a few thousand")]
async fn one(side: &impl Side, messages: usize, mix: Mix) -> anyhow::Result<Took> {
    let batch = side.prepare(messages, mix).await?;
    let (begun, cpu) = (Instant::now(), cpu_time()?);
    side.run(batch).await?;
    let (time, cpu) = (begun.elapsed(), cpu_time()?.saturating_sub(cpu));
    Ok(Took { time: time.as_secs_f64() / messages as f64, cpu: cpu.as_secs_f64() / messages as f64 })
}

/// Of this process: the server is another one.
fn cpu_time() -> anyhow::Result<Duration> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|field| field.parse::<u64>().ok()).unwrap_or_default();
    // User and system time, in hundredths of a second.
    Ok(Duration::from_millis((ticks(11) + ticks(12)) * 10))
}
