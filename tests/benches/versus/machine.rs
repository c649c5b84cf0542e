//! Where the figures were measured. A figure without that says nothing.

use std::{fmt, path::Path, process::Command};

use anyhow::Context;
use sqlx::{Connection, PgConnection};

use crate::options::Options;

pub(crate) struct Machine {
    cores: usize,
    processor: String,
    memory: String,
    storage: String,
    server: String,
    settings: String,
    date: String,
    commit: String,
}

impl Machine {
    pub(crate) async fn look(options: &Options) -> anyhow::Result<Self> {
        let mut server = PgConnection::connect(&options.url).await.context("DATABASE_URL cannot be reached")?;
        let mut settings = Vec::new();
        for name in ["fsync", "synchronous_commit", "shared_buffers"] {
            settings.push(format!("{name} = {}", show(&mut server, name).await?));
        }
        let storage = match &options.storage {
            Some(storage) => storage.clone(),
            // Only who may see it is told.
            None => show(&mut server, "data_directory").await.map_or_else(|_| "unknown".to_owned(), |directory| lies_on(&directory)),
        };
        let version = show(&mut server, "server_version").await?;
        let date = sqlx::query_scalar("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD')").fetch_one(&mut server).await?;
        server.close().await?;
        Ok(Self {
            cores: std::thread::available_parallelism()?.get(),
            processor: value_of("/proc/cpuinfo", "model name"),
            memory: gibibytes(&value_of("/proc/meminfo", "MemTotal")),
            storage,
            server: format!("PostgreSQL {}", version.split_whitespace().next().unwrap_or_default()),
            settings: settings.join(", "),
            date,
            commit: commit(),
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cores, processor, memory, storage, server, settings, date, commit } = self;
        write!(f, "{date}, commit {commit}; {cores} cores ({processor}), {memory} of memory; {server} with {settings}; its data: {storage}")
    }
}

async fn show(server: &mut PgConnection, name: &str) -> anyhow::Result<String> {
    Ok(sqlx::query_scalar("SELECT current_setting($1)").bind(name).fetch_one(server).await?)
}

fn value_of(file: &str, name: &str) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split(':').nth(1)).map_or_else(|| "unknown".to_owned(), |value| value.trim().to_owned())
}

fn gibibytes(kibibytes: &str) -> String {
    let number = kibibytes.split_whitespace().next().and_then(|number| number.parse::<u64>().ok());
    number.map_or_else(|| kibibytes.to_owned(), |number| format!("{} GiB", number.div_ceil(1 << 20)))
}

/// The kind of file system, never the path: this gets into the documentation.
fn lies_on(directory: &str) -> String {
    if !Path::new(directory).is_dir() {
        return "on another machine".to_owned();
    }
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mounted = mounts.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (at, kind) = (words.next()?, words.next()?);
        Path::new(directory).starts_with(at).then_some((at.len(), kind))
    });
    match mounted.max_by_key(|(length, _)| *length) {
        Some((_, "tmpfs")) => "in memory (tmpfs)".to_owned(),
        Some((_, kind)) => format!("on a disk ({kind})"),
        None => "unknown".to_owned(),
    }
}

fn commit() -> String {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else { return "unknown".to_owned() };
    match git(&["status", "--porcelain"]).as_deref() {
        Some("") => commit,
        _ => format!("{commit} and changes"),
    }
}
