//! What the test sees of a database.

use std::{collections::BTreeMap, future::Future, time::Duration};

use inbox_tests::database;
use sqlx::{ConnectOptions, PgPool, SqlitePool, query_as, query_scalar};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use crate::worker::Sent;

pub(crate) trait Ledger {
    /// For the worker.
    fn url(&self) -> String;

    /// Committed rows of a message: in the inbox, and of its effect.
    fn rows(&self, id: Uuid) -> impl Future<Output = (i64, i64)>;

    /// All rows in the inbox, all effects, all dead letters.
    fn totals(&self) -> impl Future<Output = (i64, i64, i64)>;

    fn balances(&self) -> impl Future<Output = Vec<(i64, i64)>>;

    /// Until one worker waits for what another one holds, where that can be seen.
    fn until_somebody_waits(&self) -> impl Future<Output = ()>;
}

/// Each message applied once, and nothing else.
pub(crate) async fn is_exact(ledger: &impl Ledger, all: &[Sent], when: &str) {
    for sent in all {
        assert_eq!(ledger.rows(sent.id).await, (1, 1), "{}: rows in the inbox and effects, {when}", sent.id);
    }
    let count = i64::try_from(all.len()).expect("a few messages");
    assert_eq!(ledger.totals().await, (count, count, 0), "inbox, effects and dead letters, {when}");
    let mut balances: BTreeMap<i64, i64> = (1..=4).map(|account| (account, 0)).collect();
    for sent in all {
        *balances.entry(sent.account).or_default() += sent.amount;
    }
    assert_eq!(ledger.balances().await, balances.into_iter().collect::<Vec<_>>(), "{when}");
}

pub(crate) struct PgLedger(PgPool);

impl PgLedger {
    pub(crate) async fn new() -> Self {
        Self(database::postgres().await)
    }
}

impl Ledger for PgLedger {
    fn url(&self) -> String {
        self.0.connect_options().to_url_lossy().to_string()
    }

    async fn rows(&self, id: Uuid) -> (i64, i64) {
        let sql = "SELECT (SELECT count(*) FROM inbox WHERE consumer_name = 'crash.postgres' AND message_id = $1), \
                   (SELECT count(*) FROM applied WHERE message_id = $1::text)";
        query_as(sql).bind(id).fetch_one(&self.0).await.expect("the rows")
    }

    async fn totals(&self) -> (i64, i64, i64) {
        let sql = "SELECT (SELECT count(*) FROM inbox), (SELECT count(*) FROM applied), (SELECT count(*) FROM inbox_dead_letter)";
        query_as(sql).fetch_one(&self.0).await.expect("the totals")
    }

    async fn balances(&self) -> Vec<(i64, i64)> {
        query_as("SELECT id, balance_cents FROM accounts ORDER BY id").fetch_all(&self.0).await.expect("the accounts")
    }

    async fn until_somebody_waits(&self) {
        const STUCK: Duration = Duration::from_secs(30);
        let sql = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')";
        let waits = async {
            while !query_scalar::<_, bool>(sql).fetch_one(&self.0).await.expect("the sessions") {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(STUCK, waits).await.expect("the second process waits at its claim");
    }
}

pub(crate) struct SqliteLedger {
    pool: SqlitePool,
    dir: TempDir,
}

impl SqliteLedger {
    pub(crate) async fn new() -> Self {
        let (pool, dir) = database::sqlite().await;
        Self { pool, dir }
    }
}

impl Ledger for SqliteLedger {
    fn url(&self) -> String {
        format!("sqlite:{}", self.dir.path().join("inbox.db").display())
    }

    async fn rows(&self, id: Uuid) -> (i64, i64) {
        let sql = "SELECT (SELECT count(*) FROM inbox WHERE consumer_name = 'crash.sqlite' AND message_id = ?1), \
                   (SELECT count(*) FROM applied WHERE message_id = ?2)";
        query_as(sql).bind(id).bind(id.to_string()).fetch_one(&self.pool).await.expect("the rows")
    }

    async fn totals(&self) -> (i64, i64, i64) {
        let sql = "SELECT (SELECT count(*) FROM inbox), (SELECT count(*) FROM applied), (SELECT count(*) FROM inbox_dead_letter)";
        query_as(sql).fetch_one(&self.pool).await.expect("the totals")
    }

    async fn balances(&self) -> Vec<(i64, i64)> {
        query_as("SELECT id, balance_cents FROM accounts ORDER BY id").fetch_all(&self.pool).await.expect("the accounts")
    }

    async fn until_somebody_waits(&self) {
        // A writer that waits for the file leaves no trace.
    }
}
