//! A database that schedules run on, and what the test asks it on connections of its own.

use std::{collections::BTreeMap, fmt::Write, future::Future};

use inbox_runtime::{Dispatcher, Inbox, InboxDatabase};
use sqlx::{AssertSqlSafe, Pool, Postgres, Row, Sqlite, raw_sql};
use uuid::Uuid;

/// What the test needs to say in a database's own words.
pub(crate) trait Ground: InboxDatabase {
    const CONSUMER: &'static str;

    /// The rows of a query for a text and a number.
    fn rows(pool: &Pool<Self>, sql: String) -> impl Future<Output = Result<Vec<(String, i64)>, sqlx::Error>> + Send;

    /// An id as the inbox holds it.
    fn literal(id: Uuid) -> String;

    /// The inbox's id as a text.
    const ID_AS_TEXT: &'static str;
}

/// A database, as the schedules use it.
pub(crate) struct Field<DB: InboxDatabase> {
    /// Two that share nothing but the database, as in two processes.
    pub(crate) inboxes: [Inbox<DB>; 2],
    /// Connections that no schedule kills.
    pub(crate) side: Side<DB>,
    /// Without consumers.
    pub(crate) nobody: Dispatcher<DB>,
}

/// For what the test does by itself; also a state of the consumers.
pub(crate) struct Side<DB: sqlx::Database>(pub(crate) Pool<DB>);

impl<DB: sqlx::Database> Clone for Side<DB> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Rows for each message, where there are any.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) inbox: BTreeMap<Uuid, i64>,
    pub(crate) applied: BTreeMap<Uuid, i64>,
    pub(crate) escaped: BTreeMap<Uuid, i64>,
    pub(crate) other_dead_letters: BTreeMap<Uuid, i64>,
}

impl<DB: Ground> Field<DB> {
    pub(crate) async fn new(inboxes: [Inbox<DB>; 2], side: Pool<DB>) -> Self {
        let [first, second] = &inboxes;
        first.migrate().await.expect("migrated");
        first.verify().await.expect("sound");
        second.verify().await.expect("sound");
        DB::rows(&side, "CREATE INDEX applied_message_id ON applied (message_id)".to_owned()).await.expect("an index for the checks");
        let nobody = Dispatcher::builder(first).without_linked().build().await.expect("an empty dispatcher");
        Self { inboxes, side: Side(side), nobody }
    }

    pub(crate) async fn open_accounts(&self, first: i64) -> Result<(), sqlx::Error> {
        let [a, b, c, d] = [first, first + 1, first + 2, first + 3];
        DB::rows(&self.side.0, format!("INSERT INTO accounts (id) VALUES ({a}), ({b}), ({c}), ({d})")).await.map(drop)
    }

    pub(crate) async fn balances(&self, first: i64) -> Result<BTreeMap<i64, i64>, sqlx::Error> {
        let last = first + 3;
        let sql = format!("SELECT CAST(id AS text), balance_cents FROM accounts WHERE id BETWEEN {first} AND {last}");
        let rows = DB::rows(&self.side.0, sql).await?;
        Ok(rows.into_iter().map(|(id, balance)| (id.parse().expect("a number"), balance)).collect())
    }

    /// How many committed rows there are for a message: in the inbox, of its effect, and among the dead letters as escaped.
    pub(crate) async fn committed(&self, id: Uuid) -> Result<(i64, i64, i64), sqlx::Error> {
        let (consumer, literal) = (DB::CONSUMER, DB::literal(id));
        let sql = format!(
            "SELECT 'inbox', count(*) FROM inbox WHERE consumer_name = '{consumer}' AND message_id = {literal} \
             UNION ALL SELECT 'applied', count(*) FROM applied WHERE message_id = '{id}' \
             UNION ALL SELECT 'escaped', count(*) FROM inbox_dead_letter WHERE message_id = {literal} AND reason = 'transaction_escaped'"
        );
        let rows = DB::rows(&self.side.0, sql).await?;
        let count = |what: &str| rows.iter().find(|(name, _)| name == what).map_or(-1, |(_, count)| *count);
        Ok((count("inbox"), count("applied"), count("escaped")))
    }

    pub(crate) async fn found(&self, ids: &[Uuid]) -> Result<Found, sqlx::Error> {
        let (id, consumer) = (DB::ID_AS_TEXT, DB::CONSUMER);
        let list = |each: &dyn Fn(Uuid) -> String| {
            ids.iter().enumerate().fold(String::new(), |mut list, (i, id)| {
                let comma = if i == 0 { "" } else { ", " };
                let _ = write!(list, "{comma}{}", each(*id));
                list
            })
        };
        let (keys, texts) = (list(&DB::literal), list(&|id| format!("'{id}'")));
        let dead = |reason: &str| {
            format!("SELECT {id}, count(*) FROM inbox_dead_letter WHERE message_id IN ({keys}) AND reason {reason} GROUP BY message_id")
        };
        let inbox =
            format!("SELECT {id}, count(*) FROM inbox WHERE consumer_name = '{consumer}' AND message_id IN ({keys}) GROUP BY message_id");
        let applied = format!("SELECT message_id, count(*) FROM applied WHERE message_id IN ({texts}) GROUP BY message_id");
        Ok(Found {
            inbox: self.by_id(inbox).await?,
            applied: self.by_id(applied).await?,
            escaped: self.by_id(dead("= 'transaction_escaped'")).await?,
            other_dead_letters: self.by_id(dead("<> 'transaction_escaped'")).await?,
        })
    }

    async fn by_id(&self, sql: String) -> Result<BTreeMap<Uuid, i64>, sqlx::Error> {
        let rows = DB::rows(&self.side.0, sql).await?;
        Ok(rows.into_iter().map(|(id, count)| (id.parse().expect("a UUID"), count)).collect())
    }
}

impl Ground for Postgres {
    const CONSUMER: &'static str = "hostile.postgres";
    const ID_AS_TEXT: &'static str = "message_id::text";

    async fn rows(pool: &Pool<Self>, sql: String) -> Result<Vec<(String, i64)>, sqlx::Error> {
        let rows = raw_sql(AssertSqlSafe(sql)).fetch_all(pool).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    fn literal(id: Uuid) -> String {
        format!("'{id}'")
    }
}

impl Ground for Sqlite {
    const CONSUMER: &'static str = "hostile.sqlite";
    const ID_AS_TEXT: &'static str = "lower(hex(message_id))";

    async fn rows(pool: &Pool<Self>, sql: String) -> Result<Vec<(String, i64)>, sqlx::Error> {
        let rows = raw_sql(AssertSqlSafe(sql)).fetch_all(pool).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    fn literal(id: Uuid) -> String {
        format!("x'{}'", id.simple())
    }
}
