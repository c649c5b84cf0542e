//! What a message costs here, and by hand. See `--help`.
#![allow(missing_docs, unreachable_pub, unnameable_types, reason = "a benchmark")]

mod by_hand;
mod delay;
mod document;
mod feed;
mod field;
mod lines;
mod machine;
mod measure;
mod options;
mod ours;
mod peers;
mod pgbench;
mod plot;
mod report;
mod rows;
mod trips;

use std::time::Instant;

use anyhow::ensure;

use crate::{machine::Machine, options::Options, report::Report};

#[tokio::main(worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    let Some(options) = Options::read()? else {
        print!("{}", options::HELP);
        return Ok(());
    };
    if options.alone.is_some() {
        return lines::alone(&options).await;
    }
    let machine = Machine::look(&options).await?;
    println!("{machine}");
    let peers = peers::build(&options).await;

    let begun = Instant::now();
    let mut report = Report::default();
    trips::count(&options, &mut report).await?;
    lines::compare_all(&options, &mut report).await?;
    rows::compare_all(&options, &mut report).await?;
    peers::compare_all(&options, &mut report, peers).await?;
    pgbench::compare_all(&options, &mut report).await?;

    let only = options.only().unwrap_or_default();
    ensure!(!report.figures().is_empty(), "nothing was measured; is there a figure `{only}`, and does it go with these options?");
    println!("measured in {} s", begun.elapsed().as_secs());
    document::write(&options, &machine, &report)?;
    println!("{}", report.last_line());
    Ok(())
}
