//! What the messages do, and what is left of them.

use std::{
    num::NonZeroU16,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use inbox_runtime::{
    CancellationToken, Dispatcher, Durability, IdFrom, Inbox, Intake, Message, MessageId, RunError, Runner, Uuid,
    broker::{Broker, Memory},
    idempotent_consumer, postgres,
};
use inbox_tests::server::Server;
use sqlx::{PgPool, Postgres, Transaction};
use tokio::{sync::Mutex, task::JoinHandle};

/// One test at a time: what is left out is left out for the whole process.
pub(crate) static ALONE: Mutex<()> = Mutex::const_new(());

#[idempotent_consumer(name = "flushed", topic = "orders")]
pub(crate) async fn flushed(tx: &mut Transaction<'_, Postgres>, id: MessageId) -> Result<(), sqlx::Error> {
    let applied = sqlx::query("INSERT INTO applied (message_id) VALUES ($1)");
    applied.bind(id.as_uuid()).execute(&mut **tx).await.map(drop)
}

/// Whether a worker stands in `blocking`.
pub(crate) static BLOCKED: AtomicBool = AtomicBool::new(false);

/// What keeps a worker busy until [`BLOCKED`] is taken back.
#[idempotent_consumer(name = "blocking", topic = "blocks")]
pub(crate) async fn blocking(tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    BLOCKED.store(true, Ordering::SeqCst);
    until(async || !BLOCKED.load(Ordering::SeqCst)).await;
    sqlx::query("SELECT").execute(&mut **tx).await.map(drop)
}

pub(crate) fn message(topic: &str, id: Uuid) -> Message {
    Message::new(topic, "{}").with_header("event-id", id.to_string())
}

/// A new message in this queue.
pub(crate) fn publish(queue: &Memory, topic: &str) -> Uuid {
    let id = Uuid::now_v7();
    queue.publish(message(topic, id));
    id
}

/// An inbox on a pool of its own, as another process has it.
pub(crate) async fn inbox(server: &Server) -> Inbox<Postgres> {
    let pool = postgres::pool_options().max_connections(8).acquire_timeout(Duration::from_secs(5));
    let pool = pool.connect_with(server.options()).await.expect("a pool");
    Inbox::builder(pool).step_timeout(Duration::from_secs(5)).build().expect("an inbox")
}

/// The same, with an empty ledger.
pub(crate) async fn fresh(server: &Server) -> Inbox<Postgres> {
    let inbox = inbox(server).await;
    sqlx::raw_sql("DROP TABLE IF EXISTS applied; CREATE TABLE applied (message_id uuid NOT NULL)")
        .execute(inbox.pool())
        .await
        .expect("the ledger");
    inbox.migrate().await.expect("migrated");
    inbox
}

/// A runner of all that is here.
pub(crate) struct Running {
    stop: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

impl Running {
    pub(crate) async fn start(inbox: &Inbox<Postgres>, broker: impl Broker, durability: Durability, workers: u16) -> Self {
        let dispatcher = Dispatcher::builder(inbox).only([flushed::NAME, blocking::NAME]).build().await.expect("a dispatcher");
        let stop = CancellationToken::new();
        let runner = Runner::new(dispatcher, broker, Intake::new("all", IdFrom::header("event-id"))).durability(durability);
        let workers = NonZeroU16::new(workers).expect("a worker");
        let runner = runner.workers(workers).prefetch(NonZeroU16::MIN.saturating_add(63));
        let runner = runner.retry(Duration::from_millis(5), Duration::from_millis(100)).stop_on(stop.clone());
        Self { stop, task: tokio::spawn(runner.run()) }
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("the runner does not panic").expect("it ends in order");
    }
}

/// How many of these were applied not at all, and how many more than once.
pub(crate) async fn ledger(pool: &PgPool, ids: &[Uuid]) -> (i64, i64) {
    let count = "SELECT count(*) FILTER (WHERE n = 0), count(*) FILTER (WHERE n > 1) FROM (SELECT id, count(message_id) AS n \
                 FROM unnest($1::uuid[]) AS id LEFT JOIN applied ON message_id = id GROUP BY id) AS each";
    sqlx::query_as(count).bind(ids).fetch_one(pool).await.expect("the ledger answers")
}

/// Asks until it is so.
pub(crate) async fn until(mut what: impl AsyncFnMut() -> bool) {
    let asked = async {
        while !what().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), asked).await.expect("it becomes true");
}
