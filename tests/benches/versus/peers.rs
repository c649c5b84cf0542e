//! Other crates for the same, each a program of its own in `tests/benches/peers`: built first, then run in pairs with the
//! side by hand. What they say to each other stands in `peers/rounds.rs`.

use std::{
    num::NonZeroU16,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, bail, ensure};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::Mutex,
};

use crate::{
    by_hand::OnPool,
    field::{Field, Mix},
    measure::{Side, Took, compare, cpu_time, each},
    options::Options,
    report::{Figure, Report},
};

/// Its name, what it is in the table, and how many messages are enough.
const PEERS: [(&str, &str, usize); 2] = [
    ("nainbox", "nainbox-pgsql 2.0.0, `PgInbox::process` by one worker", 1_500),
    ("obix", "obix 0.16.0, `persist_and_queue_job` by one worker, its jobs beside it", 400),
];

/// A peer that was built.
pub(crate) struct Built {
    key: &'static str,
    about: &'static str,
    messages: usize,
    program: PathBuf,
}

/// Those that are wanted. One that does not build is left out, and said to be.
pub(crate) async fn build(options: &Options) -> Vec<Built> {
    let mut built = Vec::new();
    for (key, about, messages) in PEERS {
        if !options.wants(&[key]) {
            continue;
        }
        println!("building {key}, before the clock starts");
        match cargo_build(key).await {
            Ok(program) => built.push(Built { key, about, messages, program }),
            Err(reason) => println!("{key} is left out: {reason:#}"),
        }
    }
    built
}

async fn cargo_build(key: &str) -> anyhow::Result<PathBuf> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = tests.join("../target/peers");
    // The cargo that runs this, or else the one in PATH; in this folder it is the toolchain of this repository.
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(tests);
    cargo.args(["build", "--release", "--locked", "--quiet", "--manifest-path"]);
    cargo.arg(tests.join(format!("benches/peers/{key}/Cargo.toml"))).arg("--target-dir").arg(&target);
    // obix checks its statements when it is compiled: against what it was published with, not against an empty database.
    cargo.env("SQLX_OFFLINE", "true").env_remove("DATABASE_URL");
    // What cargo has set for this benchmark is not meant for another package: ring, for one, would be built anew.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&*name);
        }
    }
    cargo.kill_on_drop(true);
    ensure!(cargo.status().await.context("cargo")?.success(), "it does not build");
    Ok(target.join("release").join(format!("peer-{key}")))
}

pub(crate) async fn compare_all(options: &Options, report: &mut Report, peers: Vec<Built>) -> anyhow::Result<()> {
    for Built { key, about, messages, program } in peers {
        report.begin(key);
        let (field, theirs) = (Field::new(&options.url).await?, Field::empty(&options.url).await?);
        let peer = Peer::start(&program, &theirs, NonZeroU16::MIN).await.context(key)?;
        let pool = OnPool::new(&field, NonZeroU16::MIN).await?;
        let pairs = compare(options.plan, &pool, &peer, messages, Mix::Fresh).await.context(key)?;
        report.add(Figure::speed(key, about, &pairs));
        peer.end().await.context(key)?;
        drop(pool);
        field.remove().await?;
        theirs.remove().await?;
    }
    Ok(())
}

struct Peer<'f> {
    field: &'f Field,
    process: String,
    talk: Mutex<Talk>,
}

struct Talk {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Talk {
    async fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        if self.from.read_line(&mut line).await? == 0 {
            bail!("the peer ended: {}", self.child.wait().await?);
        }
        Ok(line.trim_end().to_owned())
    }
}

impl<'f> Peer<'f> {
    async fn start(program: &Path, field: &'f Field, workers: NonZeroU16) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command.arg(field.url()).arg(workers.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().with_context(|| program.display().to_string())?;
        let process = child.id().context("it ended at once")?.to_string();
        let (to, from) = (child.stdin.take().context("no stdin")?, child.stdout.take().context("no stdout")?);
        let mut talk = Talk { child, to, from: BufReader::new(from) };
        let ready = talk.line().await?;
        ensure!(ready == "ready", "the peer said `{ready}` before it was ready");
        Ok(Self { field, process, talk: Mutex::new(talk) })
    }

    async fn end(self) -> anyhow::Result<()> {
        let Talk { mut child, to, from: _open } = self.talk.into_inner();
        drop(to);
        let status = child.wait().await?;
        ensure!(status.success(), "the peer ended: {status}");
        Ok(())
    }
}

impl Side for Peer<'_> {
    fn field(&self) -> &Field {
        self.field
    }

    async fn round(&self, messages: usize, mix: Mix) -> anyhow::Result<Took> {
        ensure!(mix == Mix::Fresh, "a peer gets fresh messages only");
        let mut talk = self.talk.lock().await;
        let cpu = cpu_time(&self.process)?;
        talk.to.write_all(format!("go {messages}\n").as_bytes()).await?;
        let line = talk.line().await?;
        let micros: f64 = line.parse().with_context(|| format!("the peer said `{line}`"))?;
        let cpu = cpu_time(&self.process)?.saturating_sub(cpu);
        Ok(Took { time: micros / 1e6, cpu: Some(each(cpu, messages)), applied: messages })
    }
}
