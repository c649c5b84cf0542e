//! What was asked for on the command line.

use anyhow::{Context, bail, ensure};

use crate::measure::Plan;

pub(crate) const HELP: &str = "\
cargo bench -p inbox-tests --bench versus -- [--quick] [--rounds N] [--only NAME] [--write-docs] [--storage TEXT]

    Compares what this crate does per message with sqlx written by hand, on the PostgreSQL that DATABASE_URL names:
        eval \"$(INBOX_SERVICES_DIR=/dev/shm/inbox tests/services up postgres)\"    in memory
        eval \"$(tests/services up postgres)\"                                      on the disk of this checkout
    Every figure is a ratio of speeds, mostly to sqlx with a pool, measured in pairs within one run, whose sides take turns
    in going first. The median is given, and in brackets the lowest and the highest. After each figure the rows of both
    sides are counted: each message has had its effect once. The last line is `key=value`, for scripts.

    --quick         few messages and rounds: under five minutes, once the peers are built
    --rounds N      pairs for each figure; 9, or 7 with --quick
    --only NAME     one figure
    --alone SIDE    with --only: only `ours` or `hand`, again and again, for a profiler
    --write-docs    the table and the plot to docs/performance.{md,svg}, for a commit; otherwise they go to target/
    --storage TEXT  what the server's data lies on, where its `data_directory` is not on this machine or does not tell

    The peers are programs of their own, in tests/benches/peers, built before the clock starts (some minutes, once).
    Without --quick one figure needs an inbox of ten million rows: 2 GB, and some minutes to fill it.
";

pub(crate) struct Options {
    pub(crate) url: String,
    pub(crate) quick: bool,
    pub(crate) plan: Plan,
    pub(crate) alone: Option<Alone>,
    pub(crate) write_docs: bool,
    pub(crate) storage: Option<String>,
    only: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alone {
    Ours,
    Hand,
}

impl Options {
    /// Nothing if only help was wanted.
    pub(crate) fn read() -> anyhow::Result<Option<Self>> {
        let (mut quick, mut rounds, mut only, mut alone, mut write_docs, mut storage) = (false, None, None, None, false, None);
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().with_context(|| format!("`{arg}` needs a value"));
            match arg.as_str() {
                "--bench" => {} // from cargo
                "--help" => return Ok(None),
                "--quick" => quick = true,
                "--write-docs" => write_docs = true,
                "--rounds" => rounds = Some(value()?.parse().context("`--rounds` takes a number")?),
                "--only" => only = Some(value()?),
                "--storage" => storage = Some(value()?),
                "--alone" => {
                    alone = Some(match value()?.as_str() {
                        "ours" => Alone::Ours,
                        "hand" => Alone::Hand,
                        other => bail!("`--alone` takes `ours` or `hand`, not `{other}`"),
                    });
                }
                other => bail!("unknown argument `{other}`; see --help"),
            }
        }
        ensure!(alone.is_none() || only.is_some(), "`--alone` needs `--only`");
        ensure!(!write_docs || only.is_none(), "`--write-docs` needs all figures: leave out `--only`");
        ensure!(rounds != Some(0), "`--rounds` cannot be zero");
        let url = std::env::var("DATABASE_URL").context("DATABASE_URL is not set; see --help")?;
        let plan = Plan { rounds: rounds.unwrap_or(if quick { 7 } else { 9 }), scale: if quick { 1 } else { 4 } };
        Ok(Some(Self { url, quick, plan, alone, write_docs, storage, only }))
    }

    /// Whether one of these is to be measured.
    pub(crate) fn wants(&self, keys: &[&str]) -> bool {
        self.only.as_deref().is_none_or(|only| keys.contains(&only))
    }

    pub(crate) fn only(&self) -> Option<&str> {
        self.only.as_deref()
    }
}
