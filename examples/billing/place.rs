//! Where the work is done: an SQLite file, or a schema of its own on somebody's PostgreSQL.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use sqlx::{AnyConnection, AssertSqlSafe, Connection, raw_sql};
use tokio::time::timeout;

use crate::{
    Error,
    events::{ACCOUNTS, SKUS},
    protocol::{Job, Mode},
};

/// The units of each article before the first order.
pub(crate) const STOCK: i64 = 100_000;

const TABLES: &str = "
    CREATE TABLE accounts (id bigint PRIMARY KEY, balance_cents bigint NOT NULL);
    CREATE TABLE stock (sku text PRIMARY KEY, units bigint NOT NULL);
    CREATE TABLE ledger (consumer text NOT NULL, event_id text NOT NULL);
    CREATE TABLE seen (consumer text NOT NULL, event_id text NOT NULL, PRIMARY KEY (consumer, event_id));";

/// Schemas that are still there.
static SCHEMAS: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// Makes the tables for one run, in `dir` or on the PostgreSQL of `url`.
pub(crate) async fn prepare(url: Option<&str>, dir: &Path, mode: Mode) -> Result<Job, Error> {
    std::fs::create_dir_all(dir)?;
    let marks = dir.join("marks.sqlite");
    let job = match url {
        Some(url) => {
            let schema = create_schema(url).await?;
            let and = if url.contains('?') { '&' } else { '?' };
            Job { mode, url: format!("{url}{and}options[search_path]={schema}"), schema: Some(schema), marks }
        }
        None => Job { mode, url: sqlite_url(&dir.join("shop.sqlite")), schema: None, marks },
    };
    let mut db = connect(&job.url).await?;
    if job.schema.is_none() {
        raw_sql("PRAGMA journal_mode = WAL").execute(&mut db).await?;
    }
    let accounts: Vec<String> = (1..=ACCOUNTS).map(|id| format!("({id}, 0)")).collect();
    let stock: Vec<String> = SKUS.iter().map(|sku| format!("('{sku}', {STOCK})")).collect();
    let fill = format!("INSERT INTO accounts VALUES {}; INSERT INTO stock VALUES {};", accounts.join(", "), stock.join(", "));
    raw_sql(AssertSqlSafe(format!("{TABLES} {fill}"))).execute(&mut db).await?;
    db.close().await?;
    Ok(job)
}

/// Drops every schema that was made here. Errors are said and no more: it is the last thing that happens.
pub(crate) async fn clear_all() {
    let schemas = std::mem::take(&mut *SCHEMAS.lock().unwrap_or_else(PoisonError::into_inner));
    for (url, schema) in schemas {
        if let Err(error) = drop_schema(&url, &schema).await {
            eprintln!("the schema {schema} could not be dropped: {error}\nrun `DROP SCHEMA {schema} CASCADE` yourself");
        }
    }
}

pub(crate) async fn connect(url: &str) -> Result<AnyConnection, Error> {
    sqlx::any::install_default_drivers();
    let answer = timeout(Duration::from_secs(10), AnyConnection::connect(url)).await;
    Ok(answer.map_err(|_| "no answer within 10 seconds")??)
}

pub(crate) async fn open_marks(file: &Path) -> Result<AnyConnection, Error> {
    let mut marks = connect(&sqlite_url(file)).await?;
    // Redis does not wait for the disk either.
    raw_sql("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; CREATE TABLE IF NOT EXISTS marks (id text PRIMARY KEY)")
        .execute(&mut marks)
        .await?;
    Ok(marks)
}

async fn create_schema(url: &str) -> Result<String, Error> {
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        let found = url.split_once(':').map_or(url, |(scheme, _)| scheme);
        return Err(format!("--database-url takes `postgres://..`, found `{found}`; leave it out to run on SQLite").into());
    }
    let unreachable = |error: Error| {
        format!(
            "the PostgreSQL of --database-url cannot be used: {error}\nis it running, and are host, port, user, password and database right?"
        )
    };
    let mut db = connect(url).await.map_err(unreachable)?;
    let schema = format!("inbox_example_{}_{:08x}", std::process::id(), fastrand::u32(..));
    let create = raw_sql(AssertSqlSafe(format!("CREATE SCHEMA {schema}"))).execute(&mut db).await;
    create.map_err(|error| format!("no schema could be created: {error}\nthe role needs `GRANT CREATE ON DATABASE .. TO ..`"))?;
    SCHEMAS.lock().unwrap_or_else(PoisonError::into_inner).push((url.to_owned(), schema.clone()));
    db.close().await?;
    Ok(schema)
}

async fn drop_schema(url: &str, schema: &str) -> Result<(), Error> {
    let mut db = connect(url).await?;
    // The server says what a CASCADE takes along; nobody asked.
    let sql = format!("SET client_min_messages = warning; SET lock_timeout = '10s'; DROP SCHEMA {schema} CASCADE");
    raw_sql(AssertSqlSafe(sql)).execute(&mut db).await?;
    db.close().await?;
    Ok(())
}

fn sqlite_url(file: &Path) -> String {
    let path = PathBuf::from(file).to_string_lossy().replace('%', "%25").replace('?', "%3F");
    format!("sqlite://{path}?mode=rwc")
}
