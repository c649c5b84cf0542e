//! Where a side works: a database with an inbox and a ledger, which is there for one figure.

use std::time::Duration;

use anyhow::Context;
use inbox_runtime::{Inbox, Message, Uuid, postgres};
use sqlx::{ConnectOptions, Connection, PgConnection, PgPool, postgres::PgConnectOptions};

use crate::delay::Delay;

/// How many of the messages have been applied before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mix {
    Fresh,
    TenPercent,
    Duplicates,
}

impl Mix {
    fn is_known(self, i: usize) -> bool {
        match self {
            Self::Fresh => false,
            Self::TenPercent => i.is_multiple_of(10),
            Self::Duplicates => true,
        }
    }

    /// How many of that many have an effect.
    pub(crate) fn fresh(self, messages: usize) -> usize {
        (0..messages).filter(|i| !self.is_known(*i)).count()
    }
}

/// Ids and payloads.
pub(crate) type Batch = Vec<(Uuid, Vec<u8>)>;

/// The version of the ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ids {
    V4,
    V7,
}

pub(crate) struct Field {
    name: String,
    /// The database of DATABASE_URL, from which this one is made and removed.
    admin: PgConnectOptions,
    options: PgConnectOptions,
    delay: Option<Delay>,
    ids: Ids,
}

pub(crate) const CONSUMER: &str = "bench";

impl Field {
    /// A database of its own on that server, without a table.
    pub(crate) async fn empty(url: &str) -> anyhow::Result<Self> {
        let admin: PgConnectOptions = url.parse()?;
        let mut connection = PgConnection::connect_with(&admin).await.context("DATABASE_URL cannot be reached")?;
        let name = format!("versus_{}", Uuid::now_v7().simple());
        sqlx::raw_sql(sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&mut connection).await?;
        connection.close().await?;
        Ok(Self { options: admin.clone().database(&name), name, admin, delay: None, ids: Ids::V7 })
    }

    pub(crate) async fn new(url: &str) -> anyhow::Result<Self> {
        let field = Self::empty(url).await?;
        let pool = field.pool(1).await?;
        Inbox::new(&pool).migrate().await?;
        let ledger = "CREATE TABLE ledger (message_id uuid NOT NULL, amount_cents bigint NOT NULL)";
        sqlx::raw_sql(ledger).execute(&pool).await?;
        pool.close().await;
        Ok(field)
    }

    /// The figure is there: ten million rows are not to stay.
    pub(crate) async fn remove(self) -> anyhow::Result<()> {
        let mut connection = PgConnection::connect_with(&self.admin).await?;
        let drop = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        sqlx::raw_sql(sqlx::AssertSqlSafe(drop)).execute(&mut connection).await?;
        Ok(connection.close().await?)
    }

    pub(crate) fn with_network(self, round_trip: Duration) -> anyhow::Result<Self> {
        let delay = Delay::to((self.options.get_host().to_owned(), self.options.get_port()), round_trip)?;
        Ok(Self { delay: Some(delay), ..self })
    }

    /// What is sent is counted.
    pub(crate) fn counted(self) -> anyhow::Result<Self> {
        self.with_network(Duration::ZERO)
    }

    pub(crate) fn requests(&self) -> u64 {
        self.delay.as_ref().map_or(0, Delay::requests)
    }

    /// Every flush of the log takes this much longer.
    pub(crate) fn with_flush(mut self, flush: Duration) -> Self {
        let delay = flush.as_micros().to_string();
        self.options = self.options.options([("commit_delay", delay.as_str()), ("commit_siblings", "0")]);
        self
    }

    pub(crate) const fn with_ids(mut self, ids: Ids) -> Self {
        self.ids = ids;
        self
    }

    pub(crate) const fn ids(&self) -> Ids {
        self.ids
    }

    pub(crate) fn options(&self) -> PgConnectOptions {
        let options = self.options.clone();
        match &self.delay {
            Some(delay) => options.host(&delay.at.ip().to_string()).port(delay.at.port()),
            None => options,
        }
    }

    /// Straight to the server.
    pub(crate) fn server(&self) -> PgConnectOptions {
        self.options.clone()
    }

    /// For other programs: only what every client knows.
    pub(crate) fn url(&self) -> String {
        let mut url = self.options.to_url_lossy();
        url.set_query(None);
        url.to_string()
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
        let id = || match self.ids {
            Ids::V4 => Uuid::new_v4(),
            Ids::V7 => Uuid::now_v7(),
        };
        let batch: Batch = (0..messages).map(|_| (id(), br#"{"amount_cents":1250}"#.to_vec())).collect();
        let ids: Vec<Uuid> = batch.iter().enumerate().filter(|(i, _)| mix.is_known(*i)).map(|(_, (id, _))| *id).collect();
        let insert = sqlx::query("INSERT INTO inbox (consumer_name, message_id) SELECT $1, unnest($2::uuid[])").bind(CONSUMER).bind(ids);
        insert.execute(pool).await?;
        Ok(batch)
    }

    /// How many messages have had an effect, each once.
    pub(crate) async fn effects(&self) -> anyhow::Result<usize> {
        let mut connection = PgConnection::connect_with(&self.options).await?;
        let count = sqlx::query_as("SELECT count(*), count(DISTINCT message_id) FROM ledger");
        let (rows, messages): (i64, i64) = count.fetch_one(&mut connection).await?;
        connection.close().await?;
        anyhow::ensure!(rows == messages, "{messages} messages have left {rows} effects");
        Ok(usize::try_from(rows)?)
    }
}

pub(crate) fn message((id, payload): (Uuid, Vec<u8>)) -> Message {
    Message::new("orders", payload).with_header("event-id", id.to_string())
}
