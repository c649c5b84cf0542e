//! `Durability::BeforeAck` on SQLite: what is acked would be there after a power cut. A kill of the process cannot show that, so each file of the
//! database is copied whenever it is synced, and every ack looks at the copies. Each rule is taken out once, to see that something is lost then.
#![allow(missing_docs, reason = "a test")]

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use inbox_runtime::Uuid;
use tempfile::TempDir;

/// A database, its disk, and what copies the one to the other.
struct Machine {
    dir: TempDir,
    preload: PathBuf,
}

/// Of a process.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    acked: usize,
    lost: usize,
    syncs: usize,
}

impl Machine {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join("disk")).expect("a disk");
        let preload = dir.path().join("disk.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/synced/disk.c");
        let built = Command::new("cc").args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"]).arg(&preload).arg(source).arg("-ldl").status();
        assert!(built.expect("a C compiler, which Rust needs as its linker").success(), "built");
        Self { dir, preload }
    }

    fn start(&self, way: &str, left_out: &str, ids: &[Uuid]) -> Child {
        let mut worker = Command::new(env!("CARGO_BIN_EXE_synced_worker"));
        worker.args([way, left_out]).args(ids.iter().map(Uuid::to_string)).stdout(Stdio::piped());
        worker.env("LD_PRELOAD", &self.preload).env("INBOX_WATCHED", self.dir.path().join("inbox.db"));
        worker.env("INBOX_DISK", self.dir.path().join("disk")).spawn().expect("a worker")
    }

    fn run(&self, way: &str, left_out: &str, ids: &[Uuid]) -> Seen {
        let before = self.syncs();
        let output = self.start(way, left_out, ids).wait_with_output().expect("a worker");
        assert!(output.status.success(), "{way}, without {left_out}: {}", output.status);
        let said = String::from_utf8(output.stdout).expect("text");
        let counts: Vec<usize> = said.split(['=', ' ', '\n']).filter_map(|word| word.parse().ok()).collect();
        let [acked, lost] = counts[..] else { panic!("it said {said}") };
        Seen { acked, lost, syncs: self.syncs() - before }
    }

    fn syncs(&self) -> usize {
        fs::read(self.dir.path().join("disk/inbox.db-wal.syncs")).map_or(0, |syncs| syncs.len())
    }

    /// A process that has committed messages, which are not on disk.
    fn committed(&self) -> (Child, Vec<Uuid>) {
        let mut worker = self.start("hold", "nothing", &ids(20));
        let lines = BufReader::new(worker.stdout.take().expect("its output")).lines().map(|line| line.expect("a line"));
        let ids: Vec<Uuid> = lines.take_while(|line| line != "held").map(|id| id.parse().expect("an id")).collect();
        assert!(!ids.is_empty(), "something is committed");
        (worker, ids)
    }
}

fn ids(count: usize) -> Vec<Uuid> {
    (0..count).map(|_| Uuid::now_v7()).collect()
}

#[test]
fn what_is_acked_is_on_disk_and_few_commits_wait_for_it() {
    const COUNT: usize = 200;
    let machine = Machine::new();
    let each = machine.run("commit", "nothing", &ids(COUNT));
    assert!(each.acked == COUNT + 1 && each.lost == 0 && each.syncs > COUNT, "each commit waits: {each:?}");
    let few = machine.run("before_ack", "nothing", &ids(COUNT));
    assert!(few.acked == COUNT + 1 && few.lost == 0 && few.syncs < COUNT / 2, "few wait: {few:?}");
    let none = machine.run("before_ack", "flushes", &ids(COUNT));
    assert!(none.acked == COUNT + 1 && none.lost > 0, "without a flush: {none:?}");
    // The last call is not the runner's.
    assert!(none.lost <= COUNT, "what others do waits for the disk: {none:?}");
}

#[test]
fn a_duplicate_of_what_another_process_has_not_flushed_yet_is_acked_once_it_is_on_disk() {
    for (way, others) in [("call", 0), ("commit", 1)] {
        for left_out in ["nothing", "duplicates"] {
            let machine = Machine::new();
            let (mut first, ids) = machine.committed();
            let seen = machine.run(way, left_out, &ids);
            first.kill().expect("it is killed");
            first.wait().expect("it ends");
            let lost = if left_out == "nothing" { 0 } else { ids.len() };
            assert!(seen.acked == ids.len() + others && seen.lost == lost, "{way}, without {left_out}: {seen:?}");
        }
    }
}
