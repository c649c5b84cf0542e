//! What one would write: the four statements of the pattern.

use std::{
    num::NonZeroU16,
    sync::{Arc, Mutex, PoisonError},
};

use inbox_runtime::Uuid;
use serde::Deserialize;
use sqlx::{Connection, PgConnection, PgPool, Postgres, Transaction};
use tokio::{sync::Mutex as AsyncMutex, task::JoinSet};

use crate::{
    field::{Batch, CONSUMER, Field, Mix},
    measure::Local,
};

#[derive(Deserialize)]
pub(crate) struct Order {
    pub(crate) amount_cents: i64,
}

async fn handle(mut tx: Transaction<'_, Postgres>, id: Uuid, payload: &[u8]) -> anyhow::Result<()> {
    let order: Order = serde_json::from_slice(payload)?;
    let claim = sqlx::query("INSERT INTO inbox (consumer_name, message_id) VALUES ($1, $2) ON CONFLICT DO NOTHING");
    if claim.bind(CONSUMER).bind(id).execute(&mut *tx).await?.rows_affected() == 0 {
        return Ok(tx.rollback().await?);
    }
    effect(&mut tx, id, order.amount_cents).await?;
    Ok(tx.commit().await?)
}

pub(crate) async fn effect(conn: &mut PgConnection, id: Uuid, amount_cents: i64) -> Result<(), sqlx::Error> {
    let effect = sqlx::query("INSERT INTO ledger (message_id, amount_cents) VALUES ($1, $2)");
    effect.bind(id).bind(amount_cents).execute(conn).await.map(drop)
}

type Queue = Arc<Mutex<std::vec::IntoIter<(Uuid, Vec<u8>)>>>;

fn next(queue: &Queue) -> Option<(Uuid, Vec<u8>)> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).next()
}

/// `pool.begin()` for each message: 1.0.
pub(crate) struct OnPool<'f> {
    field: &'f Field,
    pool: PgPool,
    workers: NonZeroU16,
}

impl<'f> OnPool<'f> {
    pub(crate) async fn new(field: &'f Field, workers: NonZeroU16) -> anyhow::Result<Self> {
        Ok(Self { field, pool: field.plain_pool(workers.get().into()).await?, workers })
    }
}

impl Local for OnPool<'_> {
    fn place(&self) -> &Field {
        self.field
    }

    async fn prepare(&self, messages: usize, mix: Mix) -> anyhow::Result<Batch> {
        self.field.batch(&self.pool, messages, mix).await
    }

    async fn run(&self, batch: Batch) -> anyhow::Result<()> {
        let queue: Queue = Arc::new(Mutex::new(batch.into_iter()));
        let mut workers = JoinSet::new();
        for _ in 0..self.workers.get() {
            let (queue, pool) = (Arc::clone(&queue), self.pool.clone());
            workers.spawn(async move {
                while let Some((id, payload)) = next(&queue) {
                    handle(pool.begin().await?, id, &payload).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(worker) = workers.join_next().await {
            worker??;
        }
        Ok(())
    }
}

/// A connection for each worker, without a pool.
pub(crate) struct OnConnections<'f> {
    field: &'f Field,
    pool: PgPool,
    connections: Vec<Arc<AsyncMutex<PgConnection>>>,
}

impl<'f> OnConnections<'f> {
    pub(crate) async fn new(field: &'f Field, workers: NonZeroU16) -> anyhow::Result<Self> {
        let mut connections = Vec::new();
        for _ in 0..workers.get() {
            connections.push(Arc::new(AsyncMutex::new(PgConnection::connect_with(&field.options()).await?)));
        }
        Ok(Self { field, pool: field.plain_pool(1).await?, connections })
    }
}

impl Local for OnConnections<'_> {
    fn place(&self) -> &Field {
        self.field
    }

    async fn prepare(&self, messages: usize, mix: Mix) -> anyhow::Result<Batch> {
        self.field.batch(&self.pool, messages, mix).await
    }

    async fn run(&self, batch: Batch) -> anyhow::Result<()> {
        let queue: Queue = Arc::new(Mutex::new(batch.into_iter()));
        let mut workers = JoinSet::new();
        for connection in &self.connections {
            let (queue, connection) = (Arc::clone(&queue), Arc::clone(connection));
            workers.spawn(async move {
                let mut connection = connection.lock().await;
                while let Some((id, payload)) = next(&queue) {
                    handle(connection.begin().await?, id, &payload).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(worker) = workers.join_next().await {
            worker??;
        }
        Ok(())
    }
}
