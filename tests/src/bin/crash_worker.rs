//! A process for the crash tests: it runs the given messages through the runner and stands still where it is told to, so that the
//! test can kill it there. The broker dies with it; a test that starts it again with the same messages delivers them again.
//!
//! Each event is a line. After `ready` it waits for a line before it takes messages, after `acking ..` before the broker hears of it.

use std::{
    io::{BufRead, Write},
    num::NonZeroU16,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, bail};
use inbox_runtime::{
    __private, Dispatcher, IdFrom, Inbox, InboxDatabase, Intake, Json, Message, MessageId, RunError, Runner,
    broker::{Memory, Verdict},
    idempotent_consumer, sqlite,
};
use inbox_tests::watched::{Watch, Watched};
use sqlx::{PgPool, Pool, Postgres, Sqlite, SqlitePool, Transaction, query};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

type Payment = (i64, i64);

#[idempotent_consumer(name = "crash.postgres", topic = "payments")]
async fn credit_postgres(
    tx: &mut Transaction<'_, Postgres>,
    id: MessageId,
    Json((account, amount)): Json<Payment>,
) -> Result<(), sqlx::Error> {
    say(&format!("body {id}"));
    let credit = query("UPDATE accounts SET balance_cents = balance_cents + $1 WHERE id = $2");
    credit.bind(amount).bind(account).execute(&mut **tx).await?;
    let applied = query("INSERT INTO applied (consumer, message_id) VALUES ($1, $2)").bind(credit_postgres::NAME);
    applied.bind(id.to_string()).execute(&mut **tx).await.map(drop)
}

#[idempotent_consumer(name = "crash.sqlite", topic = "payments")]
async fn credit_sqlite(tx: &mut Transaction<'_, Sqlite>, id: MessageId, Json((account, amount)): Json<Payment>) -> Result<(), sqlx::Error> {
    say(&format!("body {id}"));
    let credit = query("UPDATE accounts SET balance_cents = balance_cents + ?1 WHERE id = ?2");
    credit.bind(amount).bind(account).execute(&mut **tx).await?;
    let applied = query("INSERT INTO applied (consumer, message_id) VALUES (?1, ?2)").bind(credit_sqlite::NAME);
    applied.bind(id.to_string()).execute(&mut **tx).await.map(drop)
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // A test that went away reads nothing any more.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

async fn answer() {
    let read = tokio::task::spawn_blocking(|| std::io::stdin().lock().read_line(&mut String::new()));
    read.await.expect("the read ends").expect("the test answers");
}

struct Lines;

impl Watch for Lines {
    fn received(&self, message: &Message) {
        say(&format!("received {}", id(message)));
    }

    async fn settling(&self, message: &Message, verdict: Verdict) {
        match verdict {
            Verdict::Done => {
                say(&format!("acking {}", id(message)));
                answer().await;
            }
            Verdict::DeadLettered => say(&format!("dead {}", id(message))),
            Verdict::Retry { .. } => say(&format!("retry {}", id(message))),
        }
    }
}

fn id(message: &Message) -> String {
    message.headers.text("event-id").ok().flatten().unwrap_or_default().to_owned()
}

/// `crash_worker URL PREFETCH POINT PASS MESSAGE..`: POINT is `-` for none, a MESSAGE is `ID:ACCOUNT:AMOUNT`.
#[tokio::main(worker_threads = 2)]
async fn main() -> anyhow::Result<ExitCode> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [url, prefetch, point, pass, messages @ ..] = args.as_slice() else { bail!("crash_worker URL PREFETCH POINT PASS MESSAGE..") };
    let prefetch = prefetch.parse()?;
    stand_still_at(point.clone(), pass.parse()?)?;
    let queue = Memory::new();
    for message in messages {
        let (id, payment) = message.split_once(':').context("ID:ACCOUNT:AMOUNT")?;
        let (account, amount) = payment.split_once(':').context("ID:ACCOUNT:AMOUNT")?;
        let payload = serde_json::to_vec(&(account.parse::<i64>()?, amount.parse::<i64>()?))?;
        queue.publish(Message::new("payments", payload).with_header("event-id", id.to_owned()));
    }
    if url.starts_with("sqlite:") {
        let options = sqlite::durable(url.parse()?);
        run::<Sqlite>(SqlitePool::connect_with(options).await?, credit_sqlite::NAME, queue, prefetch).await
    } else {
        run::<Postgres>(PgPool::connect(url).await?, credit_postgres::NAME, queue, prefetch).await
    }
}

fn stand_still_at(wanted: String, pass: u32) -> anyhow::Result<()> {
    if wanted != "-" && !__private::POINTS.contains(&wanted.as_str()) {
        bail!("there is no point `{wanted}`");
    }
    let passes = AtomicU32::new(0);
    __private::set_probe(move |point| {
        if point == wanted && passes.fetch_add(1, Ordering::Relaxed) + 1 == pass {
            say(&format!("at {point}"));
            loop {
                std::thread::park();
            }
        }
        say(&format!("passed {point}"));
    });
    Ok(())
}

async fn run<DB: InboxDatabase>(pool: Pool<DB>, consumer: &str, queue: Memory, prefetch: NonZeroU16) -> anyhow::Result<ExitCode> {
    let inbox = Inbox::new(&pool);
    let dispatcher = Dispatcher::builder(&inbox).only([consumer]).build().await?;
    let nobody = Dispatcher::builder(&inbox).without_linked().build().await?;
    let stop = CancellationToken::new();
    let broker = Watched::new(queue.clone(), Arc::new(Lines), nobody);
    let runner = Runner::new(dispatcher, broker, Intake::new("payments", IdFrom::header("event-id")));
    let runner = runner.retry(Duration::from_millis(10), Duration::from_millis(50)).stop_on(stop.clone());
    let runner = runner.prefetch(prefetch).workers(NonZeroU16::MIN);
    let until_empty = async {
        while !queue.is_empty() {
            sleep(Duration::from_millis(5)).await;
        }
        stop.cancel();
    };
    say("ready");
    answer().await;
    let (ended, ()): (Result<(), RunError>, ()) = tokio::join!(runner.run(), until_empty);
    ended?;
    say("end");
    Ok(ExitCode::SUCCESS)
}
