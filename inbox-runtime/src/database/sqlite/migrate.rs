use sqlx::{AssertSqlSafe, Row, SqlitePool, query, raw_sql};

use crate::{
    database::migration::{Migration, pending},
    engine::contract::database::MigrateError,
    vocabulary::config::Tables,
};

static MIGRATIONS: [Migration; 1] = [Migration::new(1, "inbox", include_str!("../../../migrations/sqlite/0001_inbox.sql"))];

/// All in one transaction, which holds the write lock from its first statement on.
pub(super) async fn migrate(pool: &SqlitePool, tables: &Tables) -> Result<(), MigrateError> {
    let record = format!("main.\"{}inbox_migrations\"", tables.prefix());
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    let create = format!(
        "CREATE TABLE IF NOT EXISTS {record} (version INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, \
         applied_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))) STRICT"
    );
    raw_sql(AssertSqlSafe(create)).execute(&mut *tx).await?;
    let applied = raw_sql(AssertSqlSafe(format!("SELECT version, checksum FROM {record} ORDER BY version"))).fetch_all(&mut *tx).await?;
    let applied: Result<Vec<(i64, String)>, sqlx::Error> = applied.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect();
    for migration in pending(&MIGRATIONS, &applied?)? {
        tracing::info!(version = migration.version, name = migration.name, "migrating the inbox");
        raw_sql(AssertSqlSafe(migration.sql(tables))).execute(&mut *tx).await?;
        let insert = format!("INSERT INTO {record} (version, name, checksum) VALUES (?1, ?2, ?3)");
        let insert = query(AssertSqlSafe(insert)).bind(migration.version).bind(migration.name).bind(migration.checksum());
        insert.execute(&mut *tx).await?;
    }
    tx.commit().await?;
    Ok(())
}
