//! Where both sides work: one database with the inbox and a ledger.

use std::{num::NonZeroU16, time::Duration};

use anyhow::{Context, ensure};
use inbox_runtime::{Inbox, Message, Uuid, postgres};
use sqlx::{Connection, PgConnection, PgPool, postgres::PgConnectOptions};

use crate::{by_hand::OnPool, delay::Delay, measure::Side, ours::Ours};

/// How many of the messages have been applied before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mix {
    Fresh,
    TenPercent,
    Duplicates,
}

/// Ids and payloads.
pub(crate) type Batch = Vec<(Uuid, Vec<u8>)>;

pub(crate) struct Field {
    options: PgConnectOptions,
    delay: Option<Delay>,
}

pub(crate) const CONSUMER: &str = "bench";

impl Field {
    /// A fresh database on that server.
    pub(crate) async fn new(url: &str) -> anyhow::Result<Self> {
        let options: PgConnectOptions = url.parse()?;
        let mut admin = PgConnection::connect_with(&options).await.context("DATABASE_URL cannot be reached")?;
        let name = format!("versus_{}", Uuid::now_v7().simple());
        sqlx::raw_sql(sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&mut admin).await?;
        admin.close().await?;
        let field = Self { options: options.database(&name), delay: None };
        let pool = field.pool(1).await?;
        Inbox::new(&pool).migrate().await?;
        let ledger = "CREATE TABLE ledger (message_id uuid NOT NULL, amount_cents bigint NOT NULL)";
        sqlx::raw_sql(ledger).execute(&pool).await?;
        pool.close().await;
        Ok(field)
    }

    pub(crate) fn with_delay(mut self, round_trip: Duration) -> anyhow::Result<Self> {
        if !round_trip.is_zero() {
            self.delay = Some(Delay::to((self.options.get_host().to_owned(), self.options.get_port()), round_trip)?);
        }
        Ok(self)
    }

    /// Every flush of the log takes this much longer.
    pub(crate) fn with_flush(mut self, flush: Duration) -> Self {
        let delay = flush.as_micros().to_string();
        self.options = self.options.options([("commit_delay", delay.as_str()), ("commit_siblings", "0")]);
        self
    }

    pub(crate) fn options(&self) -> PgConnectOptions {
        let options = self.options.clone();
        match &self.delay {
            Some(delay) => options.host(&delay.at.ip().to_string()).port(delay.at.port()),
            None => options,
        }
    }

    pub(crate) async fn pool(&self, connections: u32) -> anyhow::Result<PgPool> {
        Ok(postgres::pool_options().max_connections(connections).connect_with(self.options()).await?)
    }

    /// As people make it.
    pub(crate) async fn plain_pool(&self, connections: u32) -> anyhow::Result<PgPool> {
        let options = sqlx::postgres::PgPoolOptions::new().max_connections(connections).min_connections(connections);
        Ok(options.connect_with(self.options()).await?)
    }

    /// Fresh ids, or such that are in the inbox.
    pub(crate) async fn batch(&self, pool: &PgPool, messages: usize, mix: Mix) -> anyhow::Result<Batch> {
        let known = |i: usize| match mix {
            Mix::Fresh => false,
            Mix::TenPercent => i.is_multiple_of(10),
            Mix::Duplicates => true,
        };
        let batch: Batch = (0..messages).map(|_| (Uuid::now_v7(), br#"{"amount_cents":1250}"#.to_vec())).collect();
        let ids: Vec<Uuid> = batch.iter().enumerate().filter(|(i, _)| known(*i)).map(|(_, (id, _))| *id).collect();
        let insert = sqlx::query("INSERT INTO inbox (consumer_name, message_id) SELECT $1, unnest($2::uuid[])").bind(CONSUMER).bind(ids);
        insert.execute(pool).await?;
        Ok(batch)
    }

    /// Round trips a message: fresh, a duplicate, and a fresh one by hand.
    pub(crate) async fn trips(self) -> anyhow::Result<(f64, f64, f64)> {
        const MESSAGES: usize = 1_000;
        let server = (self.options.get_host().to_owned(), self.options.get_port());
        let field = Self { delay: Some(Delay::to(server, Duration::ZERO)?), ..self };
        let delay = field.delay.as_ref().context("just made")?;
        let ours = Ours::new(&field, NonZeroU16::MIN).await?;
        let mut trips = Vec::new();
        for mix in [Mix::Fresh, Mix::Duplicates] {
            ours.run(ours.prepare(50, mix).await?).await?;
            let batch = ours.prepare(MESSAGES, mix).await?;
            let before = delay.requests();
            ours.run(batch).await?;
            trips.push(delay.requests() - before);
        }
        let by_hand = OnPool::new(&field, NonZeroU16::MIN).await?;
        by_hand.run(by_hand.prepare(50, Mix::Fresh).await?).await?;
        let batch = by_hand.prepare(MESSAGES, Mix::Fresh).await?;
        let before = delay.requests();
        by_hand.run(batch).await?;
        trips.push(delay.requests() - before);
        let each: Vec<f64> = trips.into_iter().map(|trips| f64::from(u32::try_from(trips).unwrap_or(u32::MAX)) / MESSAGES as f64).collect();
        ensure!(each.len() == 3, "three counts");
        Ok((each[0], each[1], each[2]))
    }
}

pub(crate) fn message((id, payload): (Uuid, Vec<u8>)) -> Message {
    Message::new("orders", payload).with_header("event-id", id.to_string())
}
