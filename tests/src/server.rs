//! A PostgreSQL server of a test's own, which it may kill.

use std::{path::PathBuf, process::Command, time::Duration};

use sqlx::{Connection, PgConnection, postgres::PgConnectOptions};

/// Stopped, and its data removed, when it is dropped.
#[derive(Debug)]
pub struct Server {
    home: tempfile::TempDir,
    data: PathBuf,
    programs: PathBuf,
    options: PgConnectOptions,
}

impl Server {
    /// A server whose log stays in memory until a commit waits for it.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub async fn start() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        // The server's own user has to come through.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(home.path(), open).expect("a directory that others may enter");
        let up = services(&home).args(["up", "postgres"]).output().expect("tests/services runs");
        assert!(up.status.success(), "{}", String::from_utf8_lossy(&up.stderr));
        let said = String::from_utf8(up.stdout).expect("text");
        let url = said.lines().find_map(|line| line.strip_prefix("export DATABASE_URL=")).expect("an address");
        let options: PgConnectOptions = url.parse().expect("an address");
        let mut conn = PgConnection::connect_with(&options).await.expect("it answers");
        let data: String = sqlx::query_scalar("SHOW data_directory").fetch_one(&mut conn).await.expect("its directory");
        sqlx::raw_sql("ALTER SYSTEM SET wal_writer_delay = '10s'").execute(&mut conn).await.expect("set");
        sqlx::raw_sql("SELECT pg_reload_conf()").execute(&mut conn).await.expect("read");
        let data = PathBuf::from(data);
        let postmaster = postmaster(&data).expect("it runs");
        let program = std::fs::read_link(format!("/proc/{postmaster}/exe")).expect("its program");
        let programs = program.parent().expect("a directory").to_owned();
        Self { home, data, programs, options }
    }

    /// How to reach it; the same after a crash.
    #[must_use]
    pub fn options(&self) -> PgConnectOptions {
        self.options.clone()
    }

    /// Stops those of its processes that write the log of others to the disk: until the next crash only a commit that waits for the disk does.
    ///
    /// # Panics
    ///
    /// When it does not answer.
    pub async fn freeze(&self) {
        let mut conn = PgConnection::connect_with(&self.options).await.expect("it answers");
        let writers = "SELECT pid FROM pg_stat_activity \
                       WHERE backend_type IN ('walwriter', 'background writer', 'checkpointer', 'autovacuum launcher')";
        let writers: Vec<i32> = sqlx::query_scalar(writers).fetch_all(&mut conn).await.expect("its processes");
        assert!(!writers.is_empty(), "it has a writer");
        let stopped = Command::new("kill").arg("-STOP").args(writers.iter().map(ToString::to_string)).status().expect("kill runs");
        assert!(stopped.success(), "they are ours to stop");
    }

    /// Kills all of it at once, so that what stands in its buffers is gone, and starts it again.
    ///
    /// # Panics
    ///
    /// When it does not come back.
    pub async fn crash(&self) {
        let postmaster = postmaster(&self.data).expect("it runs");
        let all: Vec<i32> = std::iter::once(postmaster).chain(children(postmaster)).collect();
        // It complains about a session that has ended by itself meanwhile.
        Command::new("kill").arg("-KILL").args(all.iter().map(ToString::to_string)).output().expect("kill runs");
        let dead = async {
            while all.iter().any(|pid| alive(*pid)) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), dead).await.expect("it is ours to kill");
        std::fs::remove_file(self.data.join("postmaster.pid")).expect("its pid file");
        let started = self.pg_ctl().args(["--silent", "--wait", "--log=/dev/null", "start"]).status().expect("pg_ctl runs");
        assert!(started.success(), "it starts again");
    }

    fn pg_ctl(&self) -> Command {
        let program = self.programs.join("pg_ctl");
        let mut command = if is_root() { Command::new("runuser") } else { Command::new(&program) };
        if is_root() {
            command.args(["-u", "postgres", "--"]).arg(program);
        }
        command.current_dir("/").arg(format!("--pgdata={}", self.data.display()));
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let down = services(&self.home).args(["down", "postgres"]).output();
        if !down.is_ok_and(|down| down.status.success()) {
            eprintln!("the server in {} may still run", self.home.path().display());
        }
    }
}

fn services(home: &tempfile::TempDir) -> Command {
    let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/services"));
    command.env("INBOX_SERVICES_DIR", home.path());
    command
}

fn postmaster(data: &std::path::Path) -> Option<i32> {
    std::fs::read_to_string(data.join("postmaster.pid")).ok()?.lines().next()?.trim().parse().ok()
}

fn children(parent: i32) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| stat(*pid).is_some_and(|(_, of)| of == parent)).collect()
}

/// The state of a process, and whose child it is.
fn stat(pid: i32) -> Option<(char, i32)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn alive(pid: i32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != 'Z')
}

fn is_root() -> bool {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").expect("/proc")) == 0
}
