//! Starts the worker, answers it, kills it, starts it again.

use std::{io::ErrorKind, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::{Instant, sleep_until},
};

use crate::{
    Error,
    protocol::{Answer, Job, Question},
    queue::{Counts, Queue},
};

/// After a kill is due, it strikes within this time: between any two steps of a message, or in the middle of one.
const STRIKE: Duration = Duration::from_millis(15);
/// How often a run says where it is.
const PROGRESS: Duration = Duration::from_secs(1);
/// Without an ack for so long, something is wrong.
const STALLED: Duration = Duration::from_secs(60);

/// What a run has seen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) counts: Counts,
    pub(crate) kills: u64,
    pub(crate) duplicates: u64,
    pub(crate) took: Duration,
}

/// When to kill: at so many acks, spread over the whole run, and a random moment later.
pub(crate) struct Kills {
    plan: Vec<u64>,
    done: usize,
    due: Option<Instant>,
    random: fastrand::Rng,
}

impl Kills {
    /// At least so many among so many acks, and some more.
    pub(crate) fn new(least: u32, acks: u64, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let count = if least == 0 { 0 } else { least + random.u32(0..=5) };
        let part = acks as f64 * 0.97 / f64::from(count.max(1));
        let plan = (0..count).map(|i| ((f64::from(i) + random.f64()) * part) as u64).collect();
        Self { plan, done: 0, due: None, random }
    }

    fn arm(&mut self, acked: u64) {
        if self.due.is_none() && self.plan.get(self.done).is_some_and(|at| acked >= *at) {
            self.due = Some(Instant::now() + STRIKE.mul_f64(self.random.f64()));
        }
    }

    fn struck(&mut self) {
        self.done += 1;
        self.due = None;
    }

    fn left(&self) -> u64 {
        (self.plan.len() - self.done) as u64
    }

    fn all_now(&mut self) {
        self.plan.iter_mut().for_each(|at| *at = 0);
    }
}

pub(crate) struct Supervisor<'a> {
    job: &'a Job,
    queue: Queue<'a>,
    kills: Kills,
    started: Instant,
    last_ack: Instant,
    next_progress: Instant,
    /// Of the workers that are dead, and of the one that lives.
    duplicates: (u64, u64),
}

enum Life {
    Killed,
    Finished,
}

impl<'a> Supervisor<'a> {
    pub(crate) fn new(job: &'a Job, queue: Queue<'a>, kills: Kills) -> Self {
        let now = Instant::now();
        Self { job, queue, kills, started: now, last_ack: now, next_progress: now + PROGRESS, duplicates: (0, 0) }
    }

    /// Until everything is acked and the worker has been killed as often as planned.
    pub(crate) async fn run(mut self) -> Result<Seen, Error> {
        while matches!(self.life().await?, Life::Killed) {
            self.queue.worker_died();
            self.kills.struck();
            self.duplicates = (self.duplicates.0 + self.duplicates.1, 0);
        }
        let duplicates = self.duplicates.0 + self.duplicates.1;
        Ok(Seen { counts: self.queue.counts, kills: self.kills.done as u64, duplicates, took: self.started.elapsed() })
    }

    async fn life(&mut self) -> Result<Life, Error> {
        let (mut worker, mut to, mut from) = self.start().await?;
        let mut finished = false;
        loop {
            let due = self.kills.due;
            tokio::select! {
                line = from.next_line() => match line? {
                    Some(line) => {
                        let answer = self.answer(&line)?;
                        tell(&mut to, &answer).await?;
                        finished |= matches!(answer, Answer::Finished);
                        if self.queue.holds() {
                            self.kills.arm(self.queue.counts.acked);
                        }
                    }
                    None => {
                        let status = worker.wait().await?;
                        if finished && status.success() {
                            return Ok(Life::Finished);
                        }
                        return Err(format!("the worker ended by itself ({status}); if it gave a reason, it stands above").into());
                    }
                },
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    // SIGKILL: nothing in the worker gets to run after it.
                    worker.kill().await?;
                    // What it had sent before is still in the pipe, and counts, as it would in a socket.
                    while let Some(line) = from.next_line().await? {
                        self.answer(&line)?;
                    }
                    return Ok(Life::Killed);
                }
                () = sleep_until(self.next_progress) => self.progress()?,
            }
        }
    }

    async fn start(&self) -> Result<(Child, ChildStdin, Lines<BufReader<ChildStdout>>), Error> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("worker").stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        // Ctrl-C is for us; we kill the worker.
        #[cfg(unix)]
        command.process_group(0);
        let mut worker = command.spawn()?;
        let mut to = worker.stdin.take().ok_or("the worker has no standard input")?;
        let from = worker.stdout.take().ok_or("the worker has no standard output")?;
        tell(&mut to, self.job).await?;
        Ok((worker, to, BufReader::new(from).lines()))
    }

    fn answer(&mut self, line: &str) -> Result<Answer, Error> {
        match serde_json::from_str(line) {
            Ok(Question::Receive { most }) => {
                if self.queue.is_empty() {
                    if self.kills.left() == 0 {
                        return Ok(Answer::Finished);
                    }
                    // A short run may end before all kills have struck: then the relay starts anew, and sends some events again.
                    self.queue.publish_again(4 * self.kills.left());
                    self.kills.all_now();
                }
                Ok(Answer::Deliveries(self.queue.take(most)))
            }
            Ok(Question::Settle { tags, duplicates }) => {
                self.last_ack = Instant::now();
                self.duplicates.1 = duplicates;
                Ok(Answer::Settled(tags.into_iter().map(|(tag, end)| self.queue.settle(tag, end)).collect()))
            }
            // A line that the kill has cut.
            Err(error) if error.is_eof() => Ok(Answer::Settled(Vec::new())),
            Err(error) => Err(format!("the worker sent `{line}`: {error}").into()),
        }
    }

    fn progress(&mut self) -> Result<(), Error> {
        self.next_progress = Instant::now() + PROGRESS;
        let (counts, elapsed) = (&self.queue.counts, self.started.elapsed().as_secs_f64());
        let rate = counts.acked as f64 / elapsed;
        println!("  {elapsed:4.0} s  {:>6} of {} acked  {:>3} kills  {rate:>5.0}/s", counts.acked, counts.published, self.kills.done);
        if self.last_ack.elapsed() > STALLED {
            return Err(format!("nothing was acked for {STALLED:?}; warnings of the worker stand above").into());
        }
        Ok(())
    }
}

async fn tell(to: &mut ChildStdin, what: &impl serde::Serialize) -> Result<(), Error> {
    let mut text = serde_json::to_vec(what)?;
    text.push(b'\n');
    match to.write_all(&text).await {
        // It is dead: that shows at the other pipe, with its reason.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}
