//! The figures: a line for people as soon as one is there, and one for scripts at the end.

use std::time::Instant;

use crate::measure::{Pairs, Spread};

/// What scripts read, in this order. What is not named here follows.
const ORDER: [&str; 12] = [
    "trips",
    "dup_trips",
    "one",
    "one_1ms",
    "four",
    "cpu",
    "grouped",
    "batch",
    "grouped_flush2ms",
    "before_ack_flush2ms",
    "nainbox",
    "obix",
];

pub(crate) struct Figure {
    pub(crate) key: &'static str,
    pub(crate) about: &'static str,
    pub(crate) spread: Spread,
    /// Microseconds a message of both sides, where this is a ratio of speeds.
    pub(crate) micros: Option<(f64, f64)>,
    cpu_micros: (Option<f64>, Option<f64>),
}

impl Figure {
    /// How many times as fast the second side is.
    pub(crate) fn speed(key: &'static str, about: &'static str, pairs: &Pairs) -> Self {
        Self { key, about, spread: pairs.speed(), micros: Some(pairs.micros()), cpu_micros: pairs.cpu_micros() }
    }

    pub(crate) const fn count(key: &'static str, about: &'static str, spread: Spread) -> Self {
        Self { key, about, spread, micros: None, cpu_micros: (None, None) }
    }

    fn line(&self) -> String {
        let Spread { low, median, high } = self.spread;
        let detail = match self.micros {
            Some((base, other)) => {
                let cpu = |micros: Option<f64>| micros.map_or_else(String::new, |micros| format!(" ({micros:.0} of CPU)"));
                let (base_cpu, other_cpu) = (cpu(self.cpu_micros.0), cpu(self.cpu_micros.1));
                format!("{base:.0} µs{base_cpu} against {other:.0} µs{other_cpu}")
            }
            None => String::new(),
        };
        format!("{:24} {median:>7.2}  [{low:.2} .. {high:.2}] {detail}", self.key)
    }
}

pub(crate) struct Report {
    figures: Vec<Figure>,
    begun: Instant,
}

impl Default for Report {
    fn default() -> Self {
        Self { figures: Vec::new(), begun: Instant::now() }
    }
}

impl Report {
    /// Progress, not for scripts.
    pub(crate) fn begin(&self, key: &str) {
        eprintln!("{:>4} s  {key} ..", self.begun.elapsed().as_secs());
    }

    pub(crate) fn add(&mut self, figure: Figure) {
        println!("{}", figure.line());
        self.figures.push(figure);
    }

    /// In the order in which they are told.
    pub(crate) fn figures(&self) -> Vec<&Figure> {
        let mut figures: Vec<&Figure> = self.figures.iter().collect();
        figures.sort_by_key(|figure| ORDER.iter().position(|key| *key == figure.key).unwrap_or(ORDER.len()));
        figures
    }

    pub(crate) fn last_line(&self) -> String {
        let pairs: Vec<String> = self.figures().iter().map(|figure| format!("{}={:.2}", figure.key, figure.spread.median)).collect();
        pairs.join(" ")
    }
}
