use sqlx::{AssertSqlSafe, PgPool, Row, query, raw_sql};

use super::sql::schema;
use crate::{
    database::migration::{Migration, pending},
    engine::contract::database::MigrateError,
    vocabulary::config::Tables,
};

static MIGRATIONS: [Migration; 1] = [Migration::new(1, "inbox", include_str!("../../../migrations/postgres/0001_inbox.sql"))];

/// All in one transaction, under an advisory lock that ends with it, in a record of our own.
pub(super) async fn migrate(pool: &PgPool, tables: &Tables) -> Result<(), MigrateError> {
    // Any two processes that bring up an inbox in this database take turns; "inbox" in ASCII.
    const LOCK: i64 = 0x69_6e_62_6f_78;
    let (schema, prefix) = (schema(tables), tables.prefix());
    let mut tx = pool.begin_with("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
    query("SELECT pg_catalog.pg_advisory_xact_lock($1)").bind(LOCK).persistent(false).execute(&mut *tx).await?;
    let exists = query("SELECT pg_catalog.to_regnamespace($1) IS NOT NULL").bind(format!("\"{schema}\""));
    // Asked first, since CREATE SCHEMA IF NOT EXISTS wants the privilege even where the schema is there.
    if !exists.persistent(false).fetch_one(&mut *tx).await?.try_get::<bool, _>(0)? {
        raw_sql(AssertSqlSafe(format!("CREATE SCHEMA \"{schema}\""))).execute(&mut *tx).await?;
    }
    let record = format!("\"{schema}\".\"{prefix}inbox_migrations\"");
    let exists = query("SELECT pg_catalog.to_regclass($1) IS NOT NULL").bind(&record);
    if !exists.persistent(false).fetch_one(&mut *tx).await?.try_get::<bool, _>(0)? {
        let create = format!(
            "CREATE TABLE {record} (version bigint PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, \
             applied_at timestamptz NOT NULL DEFAULT now())"
        );
        raw_sql(AssertSqlSafe(create)).execute(&mut *tx).await?;
    }
    let applied = raw_sql(AssertSqlSafe(format!("SELECT version, checksum FROM {record} ORDER BY version"))).fetch_all(&mut *tx).await?;
    let applied: Result<Vec<(i64, String)>, sqlx::Error> = applied.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect();
    for migration in pending(&MIGRATIONS, &applied?)? {
        tracing::info!(version = migration.version, name = migration.name, "migrating the inbox");
        let path = format!("SET LOCAL search_path = \"{schema}\"; {}", migration.sql(tables));
        raw_sql(AssertSqlSafe(path)).execute(&mut *tx).await?;
        let insert = format!("INSERT INTO {record} (version, name, checksum) VALUES ($1, $2, $3)");
        let insert = query(AssertSqlSafe(insert)).bind(migration.version).bind(migration.name).bind(migration.checksum());
        insert.persistent(false).execute(&mut *tx).await?;
    }
    tx.commit().await?;
    Ok(())
}
