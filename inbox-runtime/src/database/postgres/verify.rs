use sqlx::{Connection, PgConnection, Row, query, raw_sql};
use uuid::Uuid;

use super::sql::PgSql;
use crate::vocabulary::config::Options;

/// The inbox as the catalogs describe it; no row: there is none.
const TABLE: &str = "\
WITH parts AS (SELECT p.oid, p.relkind, p.relpersistence FROM pg_catalog.pg_class p WHERE p.oid = pg_catalog.to_regclass($1) \
  OR p.oid IN (SELECT t.relid FROM pg_catalog.pg_partition_tree(pg_catalog.to_regclass($1)) t)) \
SELECT c.oid::bigint, (SELECT bool_and(p.relkind IN ('r', 'p')) FROM parts p), (SELECT bool_and(p.relpersistence = 'p') FROM parts p), \
  c.relrowsecurity, c.relhasrules, \
  ARRAY(SELECT DISTINCT t.tgname::text FROM pg_catalog.pg_trigger t JOIN parts p ON p.oid = t.tgrelid WHERE NOT t.tgisinternal \
    AND NOT (t.tgname = 'inbox_commit_guard' AND t.tgdeferrable AND t.tginitdeferred) ORDER BY 1), \
  EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indisready \
    AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indnkeyatts = 2 \
    AND ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid \
      AND a.attnum = ANY (i.indkey::int2[])) @> ARRAY['consumer_name', 'message_id'] \
    AND i.indnatts = 2), \
  (SELECT string_agg(a.attname || ' ' || pg_catalog.format_type(a.atttypid, a.atttypmod), ', ' ORDER BY a.attname) \
    FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attname IN ('consumer_name', 'message_id') AND NOT a.attisdropped), \
  COALESCE((SELECT l.collisdeterministic FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation \
    WHERE a.attrelid = c.oid AND a.attname = 'consumer_name'), true) \
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_index i JOIN pg_catalog.pg_collation l ON l.oid = ANY (i.indcollation::oid[]) \
    WHERE i.indrelid = c.oid AND i.indisunique AND NOT l.collisdeterministic) \
FROM pg_catalog.pg_class c WHERE c.oid = pg_catalog.to_regclass($1)";

const SERVER: &str = "SELECT pg_catalog.current_setting('server_version_num')::int, pg_catalog.current_setting('fsync'), \
  pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('transaction_read_only')";

pub(super) async fn verify(conn: &mut PgConnection, options: &Options, sql: &PgSql) -> Result<Vec<String>, sqlx::Error> {
    let mut problems = server(conn, options).await?;
    let inbox = &sql.inbox;
    // Behind a proxy only a transaction stays in one session from the parse to the bind.
    let mut tx = conn.begin().await?;
    let row = query(TABLE).bind(inbox).persistent(false).fetch_optional(&mut *tx).await?;
    tx.rollback().await?;
    let Some(row) = row else {
        problems.push(format!("there is no table {inbox}; call `inbox.migrate()`, or apply the files under `migrations/postgres`"));
        return Ok(problems);
    };
    let (table, permanent): (bool, bool) = (row.try_get(1)?, row.try_get(2)?);
    if !table {
        problems.push(format!("{inbox} is not a table, or has a partition that is none"));
    }
    if !permanent {
        problems.push(format!(
            "{inbox} is not permanent (UNLOGGED or temporary), so a crash forgets what was applied; ALTER TABLE {inbox} SET LOGGED"
        ));
    }
    if row.try_get(3)? {
        problems.push(format!(
            "{inbox} has row level security, which can hide or refuse a row; ALTER TABLE {inbox} DISABLE ROW LEVEL SECURITY"
        ));
    }
    if row.try_get(4)? {
        problems.push(format!("{inbox} has a rewrite rule, which can swallow a claim; drop it"));
    }
    let triggers: Vec<String> = row.try_get(5)?;
    if !triggers.is_empty() {
        problems.push(format!("{inbox} has triggers, which can swallow a claim; drop them: {}", triggers.join(", ")));
    }
    if !row.try_get::<bool, _>(6)? {
        problems.push(format!("{inbox} has no valid unique key on exactly (consumer_name, message_id); add one as primary key"));
    }
    let columns: Option<String> = row.try_get(7)?;
    if columns.as_deref() != Some("consumer_name text, message_id uuid") {
        let found = columns.unwrap_or_default();
        problems.push(format!("{inbox} must have `consumer_name text` and `message_id uuid`, and has `{found}`"));
    }
    if !row.try_get::<bool, _>(8)? {
        problems
            .push(format!("{inbox}.consumer_name has a nondeterministic collation, under which two names can be equal; use COLLATE \"C\""));
    }
    if problems.is_empty() {
        problems.extend(probe(conn, sql).await?);
    }
    Ok(problems)
}

async fn server(conn: &mut PgConnection, options: &Options) -> Result<Vec<String>, sqlx::Error> {
    let row = raw_sql(SERVER).fetch_one(&mut *conn).await?;
    let (version, fsync): (i32, String) = (row.try_get(0)?, row.try_get(1)?);
    let (standby, read_only): (bool, String) = (row.try_get(2)?, row.try_get(3)?);
    let mut problems = Vec::new();
    if version < 130_000 {
        problems.push(format!("PostgreSQL 13 or later is needed, this is {version}"));
    }
    if fsync != "on" && !options.allow_unsafe_durability {
        problems.push(
            "the server runs with `fsync = off`, so a crash can lose what was acked; turn it on, or say `.allow_unsafe_durability(true)`"
                .to_owned(),
        );
    }
    if standby || read_only == "on" {
        problems.push("the session is read only (a standby, or `default_transaction_read_only`); connect to the primary, as in `target_session_attrs=read-write`".to_owned());
    }
    Ok(problems)
}

/// "No row returned" is a verdict only where a fresh claim returns one.
async fn probe(conn: &mut PgConnection, sql: &PgSql) -> Result<Option<String>, sqlx::Error> {
    let inbox = &sql.inbox;
    let id = Uuid::new_v4();
    let mut tx = conn.begin().await?;
    let answer = query(sql.probe()).bind("inbox.probe").bind(id).persistent(false).fetch_optional(&mut *tx).await;
    tx.rollback().await?;
    Ok(match answer {
        Ok(Some(row)) if row.try_get::<Uuid, _>(0)? == id => None,
        Ok(_) => Some(format!("a claim of a fresh id in {inbox} returned no row; something swallows inserts")),
        Err(sqlx::Error::Database(e)) => Some(format!(
            "a claim in {inbox} fails: {e}; the role needs USAGE on the schema and SELECT, INSERT on the table (UPDATE too for `Reply`)"
        )),
        Err(e) => return Err(e),
    })
}
