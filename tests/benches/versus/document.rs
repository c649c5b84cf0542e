//! The table and the plot, for the documentation.

use std::{fmt::Write, path::Path};

use anyhow::Context;

use crate::{
    machine::Machine,
    measure::Spread,
    options::Options,
    plot,
    report::{Figure, Report},
};

/// What a run writes stands between these; the rest of the page is written by people.
const BEGIN: &str = "<!-- figures: written by the benchmark -->\n";
const END: &str = "<!-- end of figures -->";

const PAGE: &str = "docs/performance.md";

pub(crate) fn write(options: &Options, machine: &Machine, report: &Report) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    let page = filled(&page, &section(options, machine, report)).with_context(|| format!("{PAGE} has lost a line `{}`", BEGIN.trim()))?;
    let folder = if options.write_docs { "docs" } else { "target" };
    for (name, text) in [("performance.md", page), ("performance.svg", plot::draw(&report.figures()))] {
        std::fs::write(root.join(folder).join(name), text).with_context(|| format!("{folder}/{name}"))?;
        println!("wrote {folder}/{name}");
    }
    Ok(())
}

fn filled(page: &str, section: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{section}{END}{after}"))
}

fn section(options: &Options, machine: &Machine, report: &Report) -> String {
    let rounds = options.plan.rounds;
    let quick = if options.quick { " (a quick run)" } else { "" };
    let mut text = format!("\n{machine}.\nMedians of {rounds} pairs{quick}.\n\n![the ratios as bars](performance.svg)\n\n");
    text.push_str("| what | key | ratio | lowest to highest | µs a message, base | µs a message, this |\n|---|---|--:|---|--:|--:|\n");
    for figure in report.figures() {
        let Figure { key, about, spread: Spread { low, median, high }, .. } = figure;
        let (base, this) = figure.micros.map_or_else(Default::default, |(base, this)| (format!("{base:.0}"), format!("{this:.0}")));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {about} | `{key}` | {median:.2} | {low:.2} to {high:.2} | {base} | {this} |");
    }
    text.push('\n');
    text
}
