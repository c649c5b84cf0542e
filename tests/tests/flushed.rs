//! `Durability::BeforeAck` on a database that is killed with its unflushed log: what was acked is there, what was lost comes again.
#![allow(missing_docs, unreachable_pub, unnameable_types, reason = "a test")]

use std::{
    num::NonZeroU16,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use inbox_runtime::{
    __private::skip_flushes,
    CancellationToken, Dispatcher, Durability, IdFrom, Inbox, Intake, Message, MessageId, Runner, Uuid,
    broker::{Memory, Verdict},
    idempotent_consumer, postgres,
};
use inbox_tests::{
    server::Server,
    watched::{Watch, Watched},
};
use sqlx::{PgPool, Postgres, Transaction, postgres::PgConnectOptions};

#[idempotent_consumer(name = "flushed", topic = "orders")]
async fn flushed(tx: &mut Transaction<'_, Postgres>, id: MessageId) -> Result<(), sqlx::Error> {
    let applied = sqlx::query("INSERT INTO applied (message_id) VALUES ($1)");
    applied.bind(id.as_uuid()).execute(&mut **tx).await.map(drop)
}

#[derive(Default)]
struct Acked(AtomicUsize);

impl Watch for Acked {
    async fn settling(&self, _message: &Message, verdict: Verdict) {
        if verdict == Verdict::Done {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

async fn pool(options: PgConnectOptions) -> PgPool {
    let pool = postgres::pool_options().max_connections(8).acquire_timeout(Duration::from_secs(5));
    pool.connect_with(options).await.expect("a pool")
}

/// Handles messages while the database is killed again and again. How many were applied not at all, and how many more than once.
async fn survivors(server: &Server) -> (i64, i64) {
    const CRASHES: usize = 4;
    const BETWEEN: usize = 300;
    const MESSAGES: usize = (CRASHES + 1) * BETWEEN;
    let pool = pool(server.options()).await;
    sqlx::raw_sql("DROP TABLE IF EXISTS applied; CREATE TABLE applied (message_id uuid NOT NULL)")
        .execute(&pool)
        .await
        .expect("the ledger");
    let inbox = Inbox::builder(pool.clone()).step_timeout(Duration::from_secs(5)).build().expect("an inbox");
    inbox.migrate().await.expect("migrated");
    let dispatcher = Dispatcher::builder(&inbox).only([flushed::NAME]).build().await.expect("a dispatcher");
    let nobody = Dispatcher::builder(&inbox).without_linked().build().await.expect("a dispatcher");
    let (queue, acked, stop) = (Memory::new(), Arc::new(Acked::default()), CancellationToken::new());
    let ids: Vec<Uuid> = (0..MESSAGES).map(|_| Uuid::now_v7()).collect();
    ids.iter().for_each(|id| queue.publish(Message::new("orders", "{}").with_header("event-id", id.to_string())));
    let broker = Watched::new(queue.clone(), Arc::clone(&acked), nobody);
    let runner = Runner::new(dispatcher, broker, Intake::new("orders", IdFrom::header("event-id"))).durability(Durability::BeforeAck);
    let runner = runner.workers(NonZeroU16::MIN.saturating_add(2)).prefetch(NonZeroU16::MIN.saturating_add(63));
    let runner = runner.retry(Duration::from_millis(5), Duration::from_millis(100)).stop_on(stop.clone());
    let running = tokio::spawn(runner.run());
    for crash in 1..=CRASHES {
        until(|| acked.0.load(Ordering::SeqCst) >= crash * BETWEEN).await;
        server.crash().await;
    }
    until(|| queue.is_empty()).await;
    stop.cancel();
    running.await.expect("the runner does not panic").expect("it ends in order");
    let count = "SELECT count(*) FILTER (WHERE n = 0), count(*) FILTER (WHERE n > 1) FROM (SELECT id, count(message_id) AS n \
                 FROM unnest($1::uuid[]) AS id LEFT JOIN applied ON message_id = id GROUP BY id) AS each";
    sqlx::query_as(count).bind(ids).fetch_one(&pool).await.expect("the ledger answers")
}

async fn until(what: impl Fn() -> bool) {
    let asked = async {
        while !what() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), asked).await.expect("it becomes true");
}

/// In one test, since what is switched off is switched off for the whole process.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_acked_before_a_crash_of_the_database_is_there_after_it() {
    let server = Server::start().await;
    assert_eq!(survivors(&server).await, (0, 0), "(lost, doubled)");
    // Without the flush it shows that the server does lose what was committed.
    skip_flushes(true);
    let (lost, doubled) = survivors(&server).await;
    skip_flushes(false);
    assert!(lost > 0 && doubled == 0, "without a flush: {lost} lost, {doubled} doubled");
    assert_eq!(survivors(&server).await, (0, 0), "(lost, doubled)");
}
