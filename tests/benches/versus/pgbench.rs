//! What is in it for any client: the statements of the side by hand, from the server's own load generator in C.

use std::{
    num::NonZeroU16,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, ensure};
use sqlx::Connection;
use tokio::process::Command;

use crate::{
    by_hand::OnPool,
    field::{Field, Mix},
    measure::{Side, Took, compare},
    options::Options,
    report::{Figure, Report},
};

/// A round trip a line, as by hand, where the client has the id and pings its connection besides.
const SCRIPT: &str = "\
BEGIN;
INSERT INTO inbox (consumer_name, message_id) VALUES ('bench', gen_random_uuid()) ON CONFLICT DO NOTHING RETURNING message_id \\gset
INSERT INTO ledger (message_id, amount_cents) VALUES (:message_id, 1250);
COMMIT;
";

const CLIENTS: [(&str, &str, u16, usize); 3] = [
    ("pgbench_one", "pgbench -M prepared, one client", 1, 1_500),
    ("pgbench_four", "pgbench -M prepared, four clients", 4, 3_000),
    ("pgbench_sixteen", "pgbench -M prepared, sixteen clients", 16, 4_000),
];

pub(crate) async fn compare_all(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    if !CLIENTS.iter().any(|(key, ..)| options.wants(&[key])) {
        return Ok(());
    }
    let program = match find(&options.url).await {
        Ok(program) => program,
        Err(reason) => {
            println!("pgbench is left out: {reason:#}");
            return Ok(());
        }
    };
    for (key, about, clients, messages) in CLIENTS {
        if !options.wants(&[key]) {
            continue;
        }
        report.begin(key);
        let clients = NonZeroU16::new(clients).context("no client")?;
        let field = Field::new(&options.url).await?;
        let pgbench = Pgbench::new(&program, &field, clients)?;
        let pairs = compare(options.plan, &OnPool::new(&field, clients).await?, &pgbench, messages, Mix::Fresh).await?;
        report.add(Figure::speed(key, about, &pairs));
        field.remove().await?;
    }
    Ok(())
}

/// Beside the server's programs, or else where programs are.
async fn find(url: &str) -> anyhow::Result<PathBuf> {
    let mut connection = sqlx::PgConnection::connect(url).await?;
    let beside: Result<String, _> =
        sqlx::query_scalar("SELECT setting FROM pg_config WHERE name = 'BINDIR'").fetch_one(&mut connection).await;
    connection.close().await?;
    let beside = beside.map(|directory| Path::new(&directory).join("pgbench"));
    if let Ok(beside) = &beside
        && beside.is_file()
    {
        return Ok(beside.clone());
    }
    let found = Command::new("pgbench").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().await;
    ensure!(found.is_ok_and(|status| status.success()), "it is neither beside the server's programs nor in PATH");
    Ok(PathBuf::from("pgbench"))
}

struct Pgbench<'f> {
    program: &'f Path,
    field: &'f Field,
    clients: NonZeroU16,
    script: tempfile::NamedTempFile,
}

impl<'f> Pgbench<'f> {
    fn new(program: &'f Path, field: &'f Field, clients: NonZeroU16) -> anyhow::Result<Self> {
        let script = tempfile::NamedTempFile::new()?;
        std::fs::write(script.path(), SCRIPT)?;
        Ok(Self { program, field, clients, script })
    }
}

impl Side for Pgbench<'_> {
    fn field(&self) -> &Field {
        self.field
    }

    async fn round(&self, messages: usize, mix: Mix) -> anyhow::Result<Took> {
        ensure!(mix == Mix::Fresh, "the script makes fresh ids only");
        let clients = usize::from(self.clients.get());
        let of_each = messages.div_ceil(clients);
        let mut command = Command::new(self.program);
        command.args(["-n", "-M", "prepared", "-c", &clients.to_string(), "-j", &clients.min(2).to_string()]);
        command.args(["-t", &of_each.to_string(), "-f"]).arg(self.script.path()).arg(self.field.url());
        let output = command.kill_on_drop(true).output().await.with_context(|| self.program.display().to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "pgbench failed:\n{text}{}", String::from_utf8_lossy(&output.stderr));
        let a_second = a_second(&text).with_context(|| format!("pgbench does not say how many a second:\n{text}"))?;
        Ok(Took { time: 1.0 / a_second, cpu: None, applied: of_each * clients })
    }
}

/// Without the time to connect: `(without initial connection time)`, and before version 14 `(excluding connections establishing)`.
fn a_second(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with("tps") && (line.contains("without") || line.contains("excluding")))?;
    line.split('=').nth(1)?.split_whitespace().next()?.parse().ok()
}
