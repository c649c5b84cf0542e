use sqlx::{Connection, Row, SqliteConnection, query, raw_sql};
use uuid::Uuid;

use super::sql::SqliteSql;
use crate::vocabulary::config::Options;

pub(super) async fn verify(conn: &mut SqliteConnection, options: &Options, sql: &SqliteSql) -> Result<Vec<String>, sqlx::Error> {
    let mut problems = Vec::new();
    let (inbox, table) = (&sql.inbox, &sql.table);
    if options.tables.schema.as_ref().is_some_and(|schema| schema.as_str() != "main") {
        problems.push("SQLite has no schemas: leave `.schema(..)` out, or use `.table_prefix(..)`".to_owned());
    }
    // FULL is 2; below it a commit may not outlive a power cut.
    let synchronous: i64 = raw_sql("PRAGMA synchronous").fetch_one(&mut *conn).await?.try_get(0)?;
    if synchronous < 2 && !options.allow_unsafe_durability {
        problems.push(
            "`PRAGMA synchronous` is below FULL, so a power cut can lose what was acked; use \
             `SqliteConnectOptions::synchronous(SqliteSynchronous::Full)`, or say `.allow_unsafe_durability(true)`"
                .to_owned(),
        );
    }
    let found = query("SELECT type FROM main.sqlite_master WHERE name = ?1 COLLATE NOCASE AND type IN ('table', 'view')");
    match found.bind(table).fetch_optional(&mut *conn).await? {
        Some(row) if row.try_get::<String, _>(0)? == "table" => {}
        Some(_) => problems.push(format!("{inbox} is not a table")),
        None => {
            problems.push(format!("there is no table {inbox}; call `inbox.migrate()`, or apply the files under `migrations/sqlite`"));
            return Ok(problems);
        }
    }
    let triggers = query(
        "SELECT name FROM main.sqlite_master WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE \
         UNION ALL SELECT name FROM temp.sqlite_master WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE",
    );
    for row in triggers.bind(table).fetch_all(&mut *conn).await? {
        let name: String = row.try_get(0)?;
        problems.push(format!("{inbox} has a trigger, `{name}`, which can swallow a claim; drop it"));
    }
    if !has_key(conn, table).await? {
        problems
            .push(format!("{inbox} has no unique key on exactly (consumer_name, message_id), compared as bytes; add one as primary key"));
    }
    if problems.is_empty() {
        problems.extend(probe(conn, sql).await?);
    }
    Ok(problems)
}

/// A unique index over the two columns and nothing else, not partial, both compared as `BINARY`.
async fn has_key(conn: &mut SqliteConnection, table: &str) -> Result<bool, sqlx::Error> {
    let row = query(
        "SELECT EXISTS (SELECT 1 FROM pragma_index_list(?1, 'main') AS l WHERE l.\"unique\" = 1 AND l.partial = 0 \
         AND (SELECT group_concat(name || ' ' || coll, ', ') FROM (SELECT x.name, x.coll FROM pragma_index_xinfo(l.name, 'main') AS x \
              WHERE x.key = 1 ORDER BY x.name)) = 'consumer_name BINARY, message_id BINARY')",
    );
    row.bind(table).fetch_one(&mut *conn).await?.try_get(0)
}

/// "No row returned" is a verdict only where a fresh claim returns one.
async fn probe(conn: &mut SqliteConnection, sql: &SqliteSql) -> Result<Option<String>, sqlx::Error> {
    let inbox = &sql.inbox;
    let mut tx = conn.begin_with("BEGIN IMMEDIATE").await?;
    let claim = query(sql.claim(1)).bind(Uuid::new_v4()).bind(None::<i64>).bind("inbox.probe");
    let answer = claim.fetch_all(&mut *tx).await;
    tx.rollback().await?;
    Ok(match answer {
        Ok(rows) if rows.len() == 1 => None,
        Ok(_) => Some(format!("a claim of a fresh id in {inbox} returned no row; something swallows inserts")),
        Err(sqlx::Error::Database(e)) => Some(format!("a claim in {inbox} fails: {e}")),
        Err(e) => return Err(e),
    })
}
