//! A line for people as soon as a figure is there, and one for scripts at the end.

use std::fmt::Write;

use crate::measure::{Pairs, Spread};

#[derive(Default)]
pub(crate) struct Report {
    last: Vec<String>,
    table: String,
}

impl Report {
    pub(crate) fn count(&mut self, name: &str, count: f64) {
        self.line(name, &format!("{count:.2}"), "round trips a message");
        self.last.push(format!("{name}={count:.2}"));
    }

    pub(crate) fn value(&mut self, name: &str, Spread { low, median, high }: Spread) {
        self.line(name, &format!("{median:.2}"), &format!("[{low:.2} .. {high:.2}] of the CPU time"));
        self.last.push(format!("{name}={median:.2}"));
    }

    pub(crate) fn pair(&mut self, name: &str, pairs: &Pairs) {
        let Spread { low, median, high } = pairs.speed();
        let (base, ours) = pairs.micros();
        let (base_cpu, ours_cpu) = pairs.cpu_micros();
        let detail = format!(
            "[{low:.2} .. {high:.2}] {:.0} µs by hand ({:.0} of CPU), {:.0} µs ({:.0})",
            base.median, base_cpu.median, ours.median, ours_cpu.median
        );
        self.line(name, &format!("{median:.2}"), &detail);
        self.last.push(format!("{name}={median:.2}"));
    }

    fn line(&mut self, name: &str, figure: &str, detail: &str) {
        println!("{name:24} {figure:>7}  {detail}");
        // Writing to a string cannot fail.
        let _ = writeln!(self.table, "| {name} | {figure} | {detail} |");
    }

    pub(crate) fn finish(self, file: &str) -> anyhow::Result<()> {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../");
        std::fs::write(format!("{root}{file}"), format!("| | | |\n|---|---|---|\n{}", self.table))?;
        println!("{}", self.last.join(" "));
        Ok(())
    }
}
