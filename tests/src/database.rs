//! A database of its own for each test, with the inbox and a ledger in it.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use inbox_runtime::{Inbox, postgres, sqlite};
use sqlx::{Connection, PgConnection, PgPool, SqlitePool, postgres::PgConnectOptions, sqlite::SqliteConnectOptions};

/// One row per account, and one per application of a message: applied twice is two rows.
const LEDGER: &str = "CREATE TABLE accounts (id bigint PRIMARY KEY, balance_cents bigint NOT NULL DEFAULT 0);
    CREATE TABLE applied (consumer text NOT NULL, message_id text NOT NULL);
    INSERT INTO accounts (id) VALUES (1), (2), (3), (4);";

static NEXT: AtomicU32 = AtomicU32::new(0);

/// The server that the tests run on.
pub fn postgres_url() -> PgConnectOptions {
    let url = std::env::var("DATABASE_URL")
        .expect("DATABASE_URL is not set: run `eval \"$(tests/services up postgres)\"` first, or use `tests/run`");
    url.parse().expect("DATABASE_URL is a PostgreSQL URL")
}

/// A fresh database on the server, with the ledger and without the inbox.
pub async fn bare_postgres() -> PgConnectOptions {
    let name = format!("inbox_test_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let server = postgres_url();
    let mut admin = PgConnection::connect_with(&server).await.expect("the PostgreSQL of DATABASE_URL answers");
    let sql = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut admin).await.expect("an old test database goes");
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&mut admin).await.expect("a test database");
    let options = server.database(&name);
    let mut conn = PgConnection::connect_with(&options).await.expect("the test database answers");
    sqlx::raw_sql(LEDGER).execute(&mut conn).await.expect("the ledger");
    conn.close().await.expect("closed");
    options
}

/// A pool on a fresh database with ledger and inbox.
pub async fn postgres() -> PgPool {
    postgres_with(10).await
}

/// The same with so many connections, and a short wait for one.
pub async fn postgres_with(connections: u32) -> PgPool {
    let pool = postgres_pool(bare_postgres().await, connections).await;
    Inbox::new(&pool).migrate().await.expect("migrated");
    pool
}

pub async fn postgres_pool(options: PgConnectOptions, connections: u32) -> PgPool {
    let pool = postgres::pool_options().max_connections(connections).acquire_timeout(Duration::from_secs(3));
    pool.connect_with(options).await.expect("a pool")
}

/// A pool of one connection on a fresh file with ledger and inbox; the file goes with the directory.
pub async fn sqlite() -> (SqlitePool, tempfile::TempDir) {
    sqlite_with(1).await
}

pub async fn sqlite_with(connections: u32) -> (SqlitePool, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let options = sqlite::durable(SqliteConnectOptions::new().filename(dir.path().join("inbox.db")).create_if_missing(true));
    let pool = sqlite::pool_options().max_connections(connections).connect_with(options).await.expect("a pool");
    sqlx::raw_sql(LEDGER).execute(&pool).await.expect("the ledger");
    Inbox::new(&pool).migrate().await.expect("migrated");
    (pool, dir)
}
