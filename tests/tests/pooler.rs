//! Behind a proxy that gives each transaction whatever session is free (`PgBouncer`, transaction mode).
#![allow(missing_docs, unreachable_pub, unnameable_types, reason = "a test")]

use std::{num::NonZeroU16, time::Duration};

use inbox_runtime::{
    CancellationToken, Dispatcher, Durability, IdFrom, Inbox, Intake, Message, MessageId, Outcome, Runner, Uuid,
    broker::{Faults, Memory},
    idempotent_consumer, postgres,
};
use inbox_tests::database::bare_postgres;
use sqlx::{PgPool, Postgres, Transaction, postgres::PgConnectOptions};

/// Named statements stay behind in a session that is somebody else's next: bodies use none either.
#[idempotent_consumer(name = "pooler", topic = "orders")]
async fn pooler(tx: &mut Transaction<'_, Postgres>, id: MessageId) -> Result<(), sqlx::Error> {
    let applied = sqlx::query("INSERT INTO applied (consumer, message_id) VALUES ('pooler', $1)");
    applied.bind(id.to_string()).persistent(false).execute(&mut **tx).await.map(drop)
}

/// Through the proxy, and beside it.
async fn pools() -> (PgPool, PgPool) {
    let url = std::env::var("PGBOUNCER_URL")
        .expect("PGBOUNCER_URL is not set: run `eval \"$(tests/services up postgres pgbouncer)\"` first, or use `tests/run`");
    let direct = bare_postgres().await;
    let database = direct.get_database().expect("its name").to_owned();
    let proxy: PgConnectOptions = url.parse().expect("an address");
    let options = || postgres::pool_options().acquire_timeout(Duration::from_secs(10));
    let through = options().max_connections(8).connect_with(proxy.database(&database).statement_cache_capacity(0)).await;
    (through.expect("a pool"), options().max_connections(1).connect_with(direct).await.expect("a pool"))
}

async fn each_once(watcher: &PgPool, ids: &[Uuid]) {
    let texts: Vec<String> = ids.iter().map(Uuid::to_string).collect();
    let wrong = "SELECT count(*) FROM (SELECT id, count(message_id) AS n FROM unnest($1::text[]) AS id LEFT JOIN applied ON message_id = id \
                 GROUP BY id) AS each WHERE n <> 1";
    let wrong: i64 = sqlx::query_scalar(wrong).bind(texts).fetch_one(watcher).await.expect("the ledger");
    assert_eq!(wrong, 0, "messages that were not applied once");
}

async fn run(durability: Durability) {
    let (pool, watcher) = pools().await;
    Inbox::new(&pool).migrate().await.expect("migrated");
    let dispatcher = Dispatcher::builder(&pool).only([pooler::NAME]).build().await.expect("a dispatcher");
    let (broker, stop) = (Memory::with_faults(Faults::seeded(3).duplicate(0.2).shuffle()), CancellationToken::new());
    let ids: Vec<Uuid> = (0..200).map(|_| Uuid::now_v7()).collect();
    ids.iter().for_each(|id| broker.publish(Message::new("orders", "{}").with_header("id", id.to_string())));
    let runner = Runner::new(dispatcher, broker.clone(), Intake::new("orders", IdFrom::header("id"))).durability(durability);
    let runner = runner.workers(NonZeroU16::MIN.saturating_add(2)).retry(Duration::from_millis(5), Duration::from_millis(100));
    let running = tokio::spawn(runner.stop_on(stop.clone()).run());
    let drained = async {
        while !broker.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), drained).await.expect("all is settled");
    stop.cancel();
    running.await.expect("the runner does not panic").expect("it ends in order");
    each_once(&watcher, &ids).await;
}

#[tokio::test]
async fn a_runner_works_on_whatever_session_it_is_given() {
    run(Durability::Commit).await;
}

/// Restarts of the database are hidden there, so every commit waits for the disk.
#[tokio::test]
async fn acks_that_wait_for_the_disk_are_not_tried_there() {
    run(Durability::BeforeAck).await;
}

#[tokio::test]
async fn a_direct_call_works_as_well() {
    let (pool, watcher) = pools().await;
    Inbox::new(&pool).migrate().await.expect("migrated");
    let id = Uuid::now_v7();
    let message = MessageId::try_from(id).expect("an id");
    assert_eq!(pooler(&pool, message, message).await.expect("applied"), Outcome::Applied(()));
    assert_eq!(pooler(&pool, message, message).await.expect("known"), Outcome::Duplicate(()));
    each_once(&watcher, &[id]).await;
}
