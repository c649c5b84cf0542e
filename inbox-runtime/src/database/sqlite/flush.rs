//! Commits that do not wait for the disk, and one that does for all before it: they are in one log, which is synced as a whole.
//!
//! Whoever meets a row of such a commit has to know that it may not be on disk yet. So a session says first that it will make some, in a row that
//! is. It stays: another process may do the same.

use sqlx::{Row, SqliteConnection, query_scalar, raw_sql};

use super::sql::SqliteSql;

/// The session's own `synchronous`.
#[derive(Debug)]
#[expect(unnameable_types, reason = "reachable through a sealed trait only")]
pub struct SqliteSeal {
    level: i64,
}

pub(super) async fn seal(conn: &mut SqliteConnection, sql: &SqliteSql) -> Result<SqliteSeal, sqlx::Error> {
    let journal: String = raw_sql("PRAGMA main.journal_mode").fetch_one(&mut *conn).await?.try_get(0)?;
    if journal != "wal" {
        let why =
            format!("`Durability::BeforeAck` needs `journal_mode = wal`, and not `{journal}`, which could lose more than the last commits");
        return Err(sqlx::Error::Configuration(why.into()));
    }
    let level = raw_sql("PRAGMA main.synchronous").fetch_one(&mut *conn).await?.try_get(0)?;
    flush(conn, sql).await?;
    Ok(SqliteSeal { level })
}

/// Where it fails at its BEGIN, the session goes on with commits that wait.
pub(super) async fn flush(conn: &mut SqliteConnection, sql: &SqliteSql) -> Result<(), sqlx::Error> {
    raw_sql(sql.flush.clone()).execute(conn).await.map(drop)
}

pub(super) async fn unseal(conn: &mut SqliteConnection, seal: &SqliteSeal) -> Result<(), sqlx::Error> {
    let level = match seal.level {
        0 => "PRAGMA main.synchronous = OFF",
        1 => "PRAGMA main.synchronous = NORMAL",
        2 => "PRAGMA main.synchronous = FULL",
        _ => "PRAGMA main.synchronous = EXTRA",
    };
    raw_sql(level).execute(conn).await.map(drop)
}

/// Whether somebody has said that commits here may not be on disk yet.
pub(super) async fn is_announced(conn: &mut SqliteConnection, sql: &SqliteSql) -> Result<bool, sqlx::Error> {
    query_scalar(sql.announced.clone()).fetch_one(conn).await
}
