//! The process that is killed.

use std::{process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};
use uuid::Uuid;

use crate::ledger::Ledger;

/// Generous: a worker that says nothing for so long is stuck.
const STUCK: Duration = Duration::from_secs(60);

/// A message that a worker is started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) id: Uuid,
    pub(crate) account: i64,
    pub(crate) amount: i64,
}

impl Sent {
    /// Never seen before.
    pub(crate) fn fresh(account: i64, amount: i64) -> Self {
        Self { id: Uuid::now_v7(), account, amount }
    }
}

pub(crate) struct Worker {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    answers: ChildStdin,
    /// What it has said so far.
    pub(crate) said: Vec<String>,
}

impl Worker {
    /// Starts one that stands still at its `pass`-th time at `point`. It takes no message before [`Worker::go`], and then one at a time.
    pub(crate) async fn start(ledger: &impl Ledger, point: &str, pass: u32, messages: &[Sent]) -> Self {
        Self::holding(ledger, 1, point, pass, messages).await
    }

    /// The same, with so many in its hands: the commit of one then carries the claim of the next.
    pub(crate) async fn holding(ledger: &impl Ledger, prefetch: u16, point: &str, pass: u32, messages: &[Sent]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crash_worker"));
        command.arg(ledger.url()).arg(prefetch.to_string()).arg(point).arg(pass.to_string());
        command.args(messages.iter().map(|sent| format!("{}:{}:{}", sent.id, sent.account, sent.amount)));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().expect("a worker");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let answers = child.stdin.take().expect("its input");
        let mut worker = Self { child, lines, answers, said: Vec::new() };
        assert!(worker.until("ready", ledger).await, "it starts");
        worker
    }

    /// Starts one that runs to its end.
    pub(crate) async fn restart(ledger: &impl Ledger, messages: &[Sent]) -> Self {
        Self::start(ledger, "-", 0, messages).await
    }

    /// Lets it take messages.
    pub(crate) async fn go(&mut self) {
        self.answer().await;
    }

    async fn answer(&mut self) {
        self.answers.write_all(b"go on\n").await.expect("it listens");
    }

    /// Follows it until it says this, or ends. At each ack it stands still, and the ledger is looked at: the row must be there.
    ///
    /// Whether it said it.
    pub(crate) async fn until(&mut self, wanted: &str, ledger: &impl Ledger) -> bool {
        loop {
            let line = timeout(STUCK, self.lines.next_line()).await;
            let line = line.unwrap_or_else(|_| panic!("no `{wanted}`; it said {:?}", self.said)).expect("its output");
            let Some(line) = line else { return false };
            self.said.push(line.clone());
            if let Some(id) = line.strip_prefix("acking ") {
                let id: Uuid = id.parse().expect("an id");
                assert_eq!(ledger.rows(id).await, (1, 1), "{id} is acked, so it is committed; {:?}", self.said);
                self.answer().await;
            }
            assert!(!line.starts_with("dead "), "nothing is set aside: {:?}", self.said);
            if line == wanted {
                return true;
            }
        }
    }

    /// SIGKILL, and nothing else.
    pub(crate) async fn kill(mut self) -> Vec<String> {
        self.child.start_kill().expect("it can be killed");
        let status = timeout(STUCK, self.child.wait()).await.expect("it dies").expect("its status");
        assert!(!status.success(), "it was killed, and did not end by itself");
        self.said
    }

    /// Lets it take messages, and follows it to its end.
    pub(crate) async fn run(mut self, ledger: &impl Ledger) -> Vec<String> {
        self.go().await;
        self.finish(ledger).await
    }

    /// Follows it to its end, which has to be a good one.
    pub(crate) async fn finish(mut self, ledger: &impl Ledger) -> Vec<String> {
        assert!(self.until("end", ledger).await, "it comes to its end; it said {:?}", self.said);
        let status = timeout(STUCK, self.child.wait()).await.expect("it ends").expect("its status");
        assert!(status.success(), "{status}; it said {:?}", self.said);
        self.said
    }
}

/// How often something was said.
pub(crate) fn times(said: &[String], line: &str) -> usize {
    said.iter().filter(|said| *said == line).count()
}
