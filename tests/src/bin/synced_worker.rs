//! A process for the tests of `Durability::BeforeAck` on SQLite: whenever a message is acked it looks at what a power cut would leave.
//!
//! `synced_worker WAY LEFT_OUT ID..` runs with `tests/synced/disk.c` preloaded and says how many of the messages were acked, and how many of
//! these a power cut would have lost. With the way `hold` it commits some of them, does not flush, says which, and waits for its end.

use std::{
    num::NonZeroU16,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, bail};
use inbox_runtime::{
    __private::{flushes_held, hold_flushes, skip_flushes, trust_duplicates},
    CancellationToken, Dispatcher, Durability, IdFrom, Inbox, Intake, Message, MessageId, Runner, Uuid,
    broker::{Memory, Verdict},
    idempotent_consumer, sqlite,
};
use inbox_tests::watched::{Watch, Watched};
use sqlx::{Connection, Sqlite, SqliteConnection, SqlitePool, Transaction, query, query_scalar, raw_sql, sqlite::SqliteConnectOptions};
use tokio::time::sleep;

const COUNT: &str = "SELECT count(*) FROM applied WHERE message_id = ?1";

#[idempotent_consumer(name = "synced", topic = "orders")]
async fn synced(tx: &mut Transaction<'_, Sqlite>, id: MessageId) -> Result<(), sqlx::Error> {
    query("INSERT INTO applied (message_id) VALUES (?1)").bind(id.as_uuid()).execute(&mut **tx).await.map(drop)
}

struct Acks {
    file: PathBuf,
    disk: PathBuf,
    acked: AtomicUsize,
    lost: AtomicUsize,
}

impl Acks {
    /// How often the message would be applied after a power cut at this moment.
    async fn after_a_power_cut(&self, id: Uuid) -> anyhow::Result<i64> {
        let copy = tempfile::tempdir()?;
        let name = self.file.file_name().context("a file")?;
        let wal = format!("{}-wal", name.to_string_lossy());
        // In this order: what a later state of the database has taken from the log is the same in it.
        std::fs::copy(self.disk.join(&wal), copy.path().join(&wal))?;
        std::fs::copy(self.disk.join(name), copy.path().join(name))?;
        let mut left = SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(copy.path().join(name))).await?;
        let count = query_scalar(COUNT).bind(id).fetch_one(&mut left).await?;
        left.close().await?;
        Ok(count)
    }

    async fn acked(&self, id: Uuid) {
        self.acked.fetch_add(1, Ordering::SeqCst);
        if self.after_a_power_cut(id).await.expect("the disk") != 1 {
            self.lost.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Watch for Acks {
    async fn settling(&self, message: &Message, verdict: Verdict) {
        if verdict == Verdict::Done {
            let id = message.headers.text("event-id").ok().flatten().and_then(|id| id.parse().ok());
            self.acked(id.expect("an id")).await;
        }
    }
}

async fn open(file: &Path) -> anyhow::Result<SqlitePool> {
    let options = sqlite::durable(SqliteConnectOptions::new().filename(file).create_if_missing(true));
    Ok(sqlite::pool_options().connect_with(options).await?)
}

#[tokio::main(worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    // A test that has died does not leave it behind.
    drop(std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(120));
        std::process::exit(1);
    }));
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [way, left_out, ids @ ..] = args.as_slice() else { bail!("synced_worker WAY LEFT_OUT ID..") };
    let ids: Vec<Uuid> = ids.iter().map(|id| id.parse()).collect::<Result<_, _>>()?;
    match left_out.as_str() {
        "nothing" => {}
        "flushes" => skip_flushes(true),
        "duplicates" => trust_duplicates(true),
        other => bail!("`{other}` cannot be left out"),
    }
    let path = |variable: &str| std::env::var_os(variable).map(PathBuf::from).with_context(|| format!("no {variable}"));
    let (file, disk) = (path("INBOX_WATCHED")?, path("INBOX_DISK")?);
    let pool = open(&file).await?;
    raw_sql("CREATE TABLE IF NOT EXISTS applied (message_id BLOB NOT NULL) STRICT").execute(&pool).await?;
    Inbox::new(&pool).migrate().await?;
    let acks = Arc::new(Acks { file, disk, acked: AtomicUsize::new(0), lost: AtomicUsize::new(0) });
    match way.as_str() {
        "call" => {
            for id in ids {
                let _ = synced(&pool, MessageId::try_from(id)?, MessageId::try_from(id)?).await?;
                acks.acked(id).await;
            }
        }
        "commit" => run(&pool, &acks, &ids, Durability::Commit).await?,
        "before_ack" => run(&pool, &acks, &ids, Durability::BeforeAck).await?,
        "hold" => {
            hold_flushes(true);
            let queue = queue(&ids);
            tokio::spawn(runner(&pool, queue, Durability::BeforeAck).await?.run());
            // The first of them wait for a flush after some milliseconds, however many there are by then.
            while flushes_held() == 0 {
                sleep(Duration::from_millis(1)).await;
            }
            let other = open(&acks.file).await?;
            for id in ids {
                if query_scalar::<_, i64>(COUNT).bind(id).fetch_one(&other).await? == 1 {
                    println!("{id}");
                }
            }
            println!("held");
            std::future::pending::<()>().await;
        }
        other => bail!("no way `{other}`"),
    }
    println!("acked={} lost={}", acks.acked.load(Ordering::SeqCst), acks.lost.load(Ordering::SeqCst));
    Ok(())
}

fn queue(ids: &[Uuid]) -> Memory {
    let queue = Memory::new();
    ids.iter().for_each(|id| queue.publish(Message::new("orders", "{}").with_header("event-id", id.to_string())));
    queue
}

async fn runner<B: inbox_runtime::broker::Broker>(
    pool: &SqlitePool,
    broker: B,
    durability: Durability,
) -> anyhow::Result<Runner<Sqlite, B>> {
    let dispatcher = Dispatcher::builder(pool).only([synced::NAME]).build().await?;
    let runner = Runner::new(dispatcher, broker, Intake::new("orders", IdFrom::header("event-id")));
    Ok(runner.durability(durability).prefetch(NonZeroU16::MIN.saturating_add(31)))
}

async fn run(pool: &SqlitePool, acks: &Arc<Acks>, ids: &[Uuid], durability: Durability) -> anyhow::Result<()> {
    let (queue, stop) = (queue(ids), CancellationToken::new());
    let nobody = Dispatcher::builder(pool).without_linked().build().await?;
    let watched = Watched::new(queue.clone(), Arc::clone(acks), nobody);
    let running = tokio::spawn(runner(pool, watched, durability).await?.stop_on(stop.clone()).run());
    while !queue.is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    stop.cancel();
    running.await??;
    // What others do on the connection afterwards waits for the disk again.
    let id = Uuid::now_v7();
    let _ = synced(pool, MessageId::try_from(id)?, MessageId::try_from(id)?).await?;
    acks.acked(id).await;
    Ok(())
}
