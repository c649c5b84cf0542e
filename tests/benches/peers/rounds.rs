//! What the benchmark and a peer say to each other. A peer is called with the URL of an empty database and a number of
//! workers, makes its schema, warms up, and says `ready`. For each line `go N` it handles N fresh messages and answers
//! with the microseconds that one took. It ends with its standard input.

use std::{
    io::{BufRead, Write},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The payload of every message.
#[derive(Serialize, Deserialize)]
pub struct Order {
    pub amount_cents: i64,
}

/// What every side makes of one.
pub const EFFECT: &str = "INSERT INTO ledger (message_id, amount_cents) VALUES ($1, $2)";
pub const LEDGER: &str = "CREATE TABLE ledger (message_id uuid NOT NULL, amount_cents bigint NOT NULL)";

/// Messages that several workers take from.
#[derive(Clone)]
pub struct Queue(Arc<Mutex<std::vec::IntoIter<(Uuid, Vec<u8>)>>>);

impl Queue {
    fn of(messages: usize) -> Self {
        let messages: Vec<_> = (0..messages).map(|_| (Uuid::now_v7(), br#"{"amount_cents":1250}"#.to_vec())).collect();
        Self(Arc::new(Mutex::new(messages.into_iter())))
    }

    pub fn next(&self) -> Option<(Uuid, Vec<u8>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next()
    }
}

/// The URL and the number of workers.
pub fn arguments() -> anyhow::Result<(String, u32)> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().context("the first argument is the URL of an empty database")?;
    let workers = arguments.next().context("the second argument is the number of workers")?.parse()?;
    Ok((url, workers))
}

/// Answers until nobody asks. `run` returns when all messages of the queue have been applied.
pub async fn serve(run: impl AsyncFn(Queue, usize) -> anyhow::Result<()>) -> anyhow::Result<()> {
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let messages: usize = line.strip_prefix("go ").with_context(|| format!("`{line}` is not `go N`"))?.parse()?;
        let queue = Queue::of(messages);
        let begun = Instant::now();
        run(queue, messages).await?;
        println!("{}", begun.elapsed().as_secs_f64() * 1e6 / messages as f64);
        std::io::stdout().flush()?;
    }
    Ok(())
}
