//! The same through a runner.

use std::num::NonZeroU16;

use inbox_runtime::{Dispatcher, Durability, IdFrom, Inbox, Intake, Json, MessageId, Runner, Uuid, idempotent_consumer};
use sqlx::{PgPool, Postgres, Transaction};

use crate::{
    by_hand::{Order, effect},
    feed::Feed,
    field::{Batch, Field, Mix, message},
    measure::Local,
};

#[idempotent_consumer(name = "bench", topic = "orders")]
async fn bench(tx: &mut Transaction<'_, Postgres>, id: MessageId, Json(order): Json<Order>) -> Result<(), sqlx::Error> {
    effect(tx, id.as_uuid(), order.amount_cents).await
}

/// The same, with others in its transaction.
#[idempotent_consumer(name = "bench.grouped", topic = "orders", group = 100)]
async fn grouped(tx: &mut Transaction<'_, Postgres>, id: MessageId, Json(order): Json<Order>) -> Result<(), sqlx::Error> {
    effect(tx, id.as_uuid(), order.amount_cents).await
}

/// Many with one body and one statement.
#[idempotent_consumer(name = "bench.batch", topic = "orders", batch = 500)]
async fn batch(tx: &mut Transaction<'_, Postgres>, ids: Vec<MessageId>, orders: Vec<Json<Order>>) -> Result<(), sqlx::Error> {
    let ids: Vec<Uuid> = ids.iter().map(MessageId::as_uuid).collect();
    let cents: Vec<i64> = orders.iter().map(|Json(order)| order.amount_cents).collect();
    let effect = sqlx::query("INSERT INTO ledger (message_id, amount_cents) SELECT * FROM unnest($1::uuid[], $2::bigint[])");
    effect.bind(ids).bind(cents).execute(&mut **tx).await.map(drop)
}

pub(crate) struct Ours<'f> {
    field: &'f Field,
    pool: PgPool,
    dispatcher: Dispatcher<Postgres>,
    workers: NonZeroU16,
    durability: Durability,
}

impl<'f> Ours<'f> {
    pub(crate) async fn new(field: &'f Field, workers: NonZeroU16) -> anyhow::Result<Self> {
        Self::of(bench::NAME, field, workers).await
    }

    pub(crate) async fn grouped(field: &'f Field, workers: NonZeroU16) -> anyhow::Result<Self> {
        Self::of(grouped::NAME, field, workers).await
    }

    pub(crate) async fn batch(field: &'f Field, workers: NonZeroU16) -> anyhow::Result<Self> {
        Self::of(batch::NAME, field, workers).await
    }

    async fn of(consumer: &str, field: &'f Field, workers: NonZeroU16) -> anyhow::Result<Self> {
        let pool = field.pool(u32::from(workers.get()) + 2).await?;
        let dispatcher = Dispatcher::builder(&Inbox::new(&pool)).only([consumer]).build().await?;
        Ok(Self { field, pool, dispatcher, workers, durability: Durability::Commit })
    }

    pub(crate) const fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }
}

impl Local for Ours<'_> {
    fn place(&self) -> &Field {
        self.field
    }

    async fn prepare(&self, messages: usize, mix: Mix) -> anyhow::Result<Batch> {
        self.field.batch(&self.pool, messages, mix).await
    }

    async fn run(&self, batch: Batch) -> anyhow::Result<()> {
        let feed = Feed::of(batch.into_iter().map(message).collect());
        let stop = feed.done.clone();
        let runner = Runner::new(self.dispatcher.clone(), feed, Intake::new("bench", IdFrom::header("event-id")));
        let prefetch = NonZeroU16::MIN.saturating_add(999);
        Ok(runner.workers(self.workers).durability(self.durability).prefetch(prefetch).stop_on(stop).run().await?)
    }
}
