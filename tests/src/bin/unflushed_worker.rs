//! A process for the tests of `Durability::BeforeAck`: its flusher stands still, so that what it has committed is not on disk when it is killed.
//!
//! `unflushed_worker URL COUNT` says `committed ID` for so many messages, and waits for its end.

use std::{num::NonZeroU16, time::Duration};

use anyhow::bail;
use inbox_runtime::{
    __private::{flushes_held, hold_flushes},
    Dispatcher, Durability, IdFrom, Intake, Message, MessageId, Runner, Uuid,
    broker::Memory,
    idempotent_consumer, postgres,
};
use sqlx::{Postgres, Transaction, query, query_scalar};
use tokio::time::sleep;

#[idempotent_consumer(name = "flushed", topic = "orders")]
async fn flushed(tx: &mut Transaction<'_, Postgres>, id: MessageId) -> Result<(), sqlx::Error> {
    query("INSERT INTO applied (message_id) VALUES ($1)").bind(id.as_uuid()).execute(&mut **tx).await.map(drop)
}

#[tokio::main(worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [url, count] = args.as_slice() else { bail!("unflushed_worker URL COUNT") };
    let pool = postgres::pool_options().max_connections(4).connect(url).await?;
    let dispatcher = Dispatcher::builder(&pool).only([flushed::NAME]).build().await?;
    let queue = Memory::new();
    let publish = || {
        let id = Uuid::now_v7();
        queue.publish(Message::new("orders", "{}").with_header("event-id", id.to_string()));
        id
    };
    hold_flushes(true);
    let runner = Runner::new(dispatcher, queue.clone(), Intake::new("orders", IdFrom::header("event-id")));
    tokio::spawn(runner.durability(Durability::BeforeAck).workers(NonZeroU16::MIN).run());
    // Until there is a session to flush on, commits wait for the disk.
    while flushes_held() == 0 {
        if queue.is_empty() {
            publish();
        }
        sleep(Duration::from_millis(1)).await;
    }
    for _ in 0..count.parse()? {
        let id = publish();
        while !query_scalar("SELECT EXISTS (SELECT FROM applied WHERE message_id = $1)").bind(id).fetch_one(&pool).await? {
            sleep(Duration::from_millis(1)).await;
        }
        println!("committed {id}");
    }
    std::future::pending().await
}
