//! The schema: set up by any number of processes at once, beside the user's own migrations.

use std::time::Duration;

use inbox_runtime::{Inbox, MigrateError, sqlite};
use inbox_tests::database::sqlite as fresh;
use sqlx::{
    SqlitePool,
    migrate::Migrator,
    sqlite::{SqliteConnectOptions, SqliteJournalMode},
};
use tempfile::TempDir;

use super::support::*;

/// A file without anything in it.
async fn bare() -> (SqlitePool, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let options = SqliteConnectOptions::new().filename(dir.path().join("bare.db")).create_if_missing(true);
    let pool = sqlite::pool_options().connect_with(sqlite::durable(options)).await.unwrap();
    (pool, dir)
}

const TABLES: &str = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name LIKE 'inbox%'";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_processes_at_once_set_it_up_once_and_again() {
    let (pool, _dir) = bare().await;
    for _ in 0..2 {
        let mut tasks = Vec::new();
        for _ in 0..10 {
            let other = beside(&pool, Duration::from_secs(60)).await;
            tasks.push(tokio::spawn(async move { Inbox::new(&other).migrate().await }));
        }
        for task in tasks {
            bounded(task).await.unwrap().unwrap();
        }
        assert_eq!(number(&pool, TABLES).await, 3);
        assert_eq!(number(&pool, "SELECT count(*) FROM inbox_migrations").await, 1);
    }
    Inbox::new(&pool).verify().await.unwrap();
}

#[tokio::test]
async fn b15_it_stands_beside_the_users_own_migrations_in_any_order() {
    let files = tempfile::tempdir().unwrap();
    std::fs::write(files.path().join("0001_orders.sql"), "CREATE TABLE orders (id INTEGER PRIMARY KEY);").unwrap();
    let own = Migrator::new(files.path()).await.unwrap();
    for inbox_first in [true, false] {
        let (pool, _dir) = bare().await;
        // Boot twice.
        for _ in 0..2 {
            if inbox_first {
                Inbox::new(&pool).migrate().await.unwrap();
            }
            own.run(&pool).await.unwrap();
            Inbox::new(&pool).migrate().await.unwrap();
        }
        Inbox::new(&pool).verify().await.unwrap();
        assert_eq!(number(&pool, "SELECT count(*) FROM _sqlx_migrations").await, 1);
        assert_eq!(number(&pool, "SELECT count(*) FROM orders").await, 0);
    }
}

#[tokio::test]
async fn what_was_applied_stays_when_it_is_migrated_again() {
    let ((pool, _dir), id) = (fresh().await, new_id());
    assert!(billing(&pool, id, id, noting()).await.unwrap().is_applied());
    Inbox::new(&pool).migrate().await.unwrap();
    assert!(!billing(&pool, id, id, noting()).await.unwrap().is_applied());
    assert_once(&pool, "billing", id).await;
}

#[tokio::test]
async fn a_schema_that_was_edited_or_is_newer_is_refused() {
    let (pool, _dir) = fresh().await;
    run(&pool, "INSERT INTO inbox_migrations (version, name, checksum) VALUES (4000, 'later', 'x')").await;
    let newer = Inbox::new(&pool).migrate().await.unwrap_err();
    assert!(matches!(newer, MigrateError::Newer { found: 4000, .. }), "{newer:?}");
    run(&pool, "DELETE FROM inbox_migrations WHERE version = 4000; UPDATE inbox_migrations SET checksum = 'x' WHERE version = 1").await;
    let changed = Inbox::new(&pool).migrate().await.unwrap_err();
    assert!(matches!(changed, MigrateError::Changed { version: 1 }), "{changed:?}");
}

/// A table of that name that is not ours: nothing is half applied.
#[tokio::test]
async fn a_table_in_the_way_is_an_error_and_nothing_is_half_applied() {
    let (pool, _dir) = bare().await;
    run(&pool, "CREATE TABLE inbox_dead_letter (x)").await;
    let failed = Inbox::new(&pool).migrate().await.unwrap_err();
    assert!(failed.to_string().contains("already exists"), "{failed}");
    assert_eq!(number(&pool, TABLES).await, 1, "neither the inbox nor the record");
    run(&pool, "DROP TABLE inbox_dead_letter").await;
    Inbox::new(&pool).migrate().await.unwrap();
    Inbox::new(&pool).verify().await.unwrap();
}

/// The rollback journal of a file that is not in WAL mode does as well.
#[tokio::test]
async fn it_works_without_a_write_ahead_log() {
    let dir = tempfile::tempdir().unwrap();
    let options = SqliteConnectOptions::new().filename(dir.path().join("delete.db")).create_if_missing(true);
    let options = sqlite::durable(options).journal_mode(SqliteJournalMode::Delete);
    let (pool, id) = (sqlite::pool_options().connect_with(options).await.unwrap(), new_id());
    run(&pool, "CREATE TABLE applied (consumer text NOT NULL, message_id text NOT NULL)").await;
    Inbox::new(&pool).migrate().await.unwrap();
    assert!(billing(&pool, id, id, noting()).await.unwrap().is_applied());
    assert!(!billing(&pool, id, id, noting()).await.unwrap().is_applied());
    assert_once(&pool, "billing", id).await;
}
