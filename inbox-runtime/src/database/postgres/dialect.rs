use std::{
    collections::{HashMap, HashSet},
    num::NonZeroU16,
    time::Duration,
};

use sqlx::{
    AssertSqlSafe, Connection, PgConnection, Pool, Postgres, Row, SqlSafeStr, SqlStr, pool::PoolConnection, postgres::PgSeverity, query,
    raw_sql,
};
use uuid::Uuid;

use super::{
    answers::{Heard, aborted, claimed, code, database_error, ended, mark, unchanged},
    commit_guard, flush, migrate,
    sql::{PgSql, Place, Prepared},
    verify,
};
use crate::{
    engine::contract::{
        database::{
            Claim, Claimed, ClaimedMany, CommitGuard, DeadLetterRow, Dialect, Flushes, Guarded, InboxDatabase, MigrateError, SqlFault,
        },
        trip::{End, Ended, Next, Trip},
    },
    vocabulary::{
        config::{Isolation, Options},
        error::BoxError,
    },
};

/// The claim's transaction, and the session that it runs in.
#[derive(Debug)]
#[expect(unnameable_types, reason = "reachable through a sealed trait only")]
pub struct PgMark {
    pub(super) xid: String,
    pub(super) pid: i32,
    /// When it claimed, in seconds: whatever backend has this pid and is older is the one that claimed.
    pub(super) at: String,
}

/// Whether the session holds our prepared statements.
#[derive(Debug)]
#[expect(unnameable_types, reason = "reachable through a sealed trait only")]
pub struct PgKept {
    prepared: Option<Prepared>,
}

impl InboxDatabase for Postgres {}

impl CommitGuard for Postgres {
    async fn install_commit_guard(pool: &Pool<Self>, options: &Options) -> Result<(), MigrateError> {
        commit_guard::install(pool, &options.tables).await
    }
}

impl Dialect for Postgres {
    type Sql = PgSql;
    type Watch = ();
    type Kept = PgKept;
    /// A prepared statement is there in its own session only.
    type Seal = ();
    type Mark = PgMark;

    fn sql(options: &Options) -> PgSql {
        PgSql::new(options)
    }

    fn begin(isolation: Option<Isolation>) -> SqlStr {
        let plain = "BEGIN".into_sql_str();
        isolation.map_or(plain, |level| match level {
            Isolation::ReadCommitted => "BEGIN ISOLATION LEVEL READ COMMITTED".into_sql_str(),
            Isolation::RepeatableRead => "BEGIN ISOLATION LEVEL REPEATABLE READ".into_sql_str(),
            Isolation::Serializable => "BEGIN ISOLATION LEVEL SERIALIZABLE".into_sql_str(),
        })
    }

    async fn arm(_conn: &mut PgConnection) -> Result<(), sqlx::Error> {
        Ok(())
    }

    async fn claim(conn: &mut PgConnection, sql: &PgSql, claim: &Claim<'_>) -> Result<Claimed<PgMark>, sqlx::Error> {
        let heard = Heard::from(raw_sql(sql.claim(claim)).fetch_many(&mut *conn)).await;
        if let Some(error) = heard.error {
            return Err(error);
        }
        claimed(conn, sql, claim, &heard.rows, Place::of_text(0)).await
    }

    const WORKERS: Option<NonZeroU16> = None;

    async fn keep(conn: &mut PgConnection, sql: &PgSql) -> Result<PgKept, sqlx::Error> {
        if sql.is_plain() {
            return Ok(PgKept { prepared: None });
        }
        let lock_timeout = async |conn: &mut PgConnection| -> Result<String, sqlx::Error> {
            raw_sql("SELECT reset_val FROM pg_catalog.pg_settings WHERE name = 'lock_timeout'").fetch_one(conn).await?.try_get(0)
        };
        match raw_sql(sql.prepare.clone()).execute(&mut *conn).await {
            Ok(_) => Ok(PgKept { prepared: Some(Prepared::new(lock_timeout(conn).await?)) }),
            // Somebody else's session, as it seems: a proxy gives each transaction the next one that is free.
            Err(e) if code(&e) == Some("42P05") => {
                sql.go_plain();
                Ok(PgKept { prepared: None })
            }
            Err(e) => Err(e),
        }
    }

    async fn trip(
        conn: &mut PgConnection,
        sql: &PgSql,
        kept: &PgKept,
        end: End<'_, PgMark>,
        reset: bool,
        next: Option<Next<'_>>,
    ) -> Trip<PgMark> {
        let (text, parts) = sql.trip(kept.prepared.as_ref(), end, reset, next);
        let Heard { done, rows, mut error } = Heard::from(raw_sql(text).fetch_many(&mut *conn)).await;
        if done < parts.end {
            let error = error.unwrap_or(sqlx::Error::RowNotFound);
            return ended(conn, end, done, error).await;
        }
        if parts.looks && done == parts.claim.insert && error.as_ref().and_then(code) == Some("22012") {
            // The look found something that is not undone at once, and nothing was claimed.
            return Trip { ended: Ended::Done, claimed: None, open: true, broken: false };
        }
        if error.is_none() && parts.checked {
            let last = rows.iter().rfind(|(statement, _)| *statement + 1 == parts.end + parts.reset).map(|(_, row)| row);
            error = unchanged(conn, last).err();
        }
        if !reset && kept.prepared.is_some() && error.as_ref().and_then(code) == Some("26000") {
            // No body has run, and what was prepared is gone.
            sql.go_plain();
        }
        // Whatever goes wrong before the claim, or is no answer of the server's to it, leaves a session that nobody knows.
        let broken = error.as_ref().is_some_and(|e| done < parts.claim.begins || database_error(e).is_none());
        let claimed = match (next, error) {
            (None, _) => None,
            (Some(_), Some(error)) => Some(Err(error)),
            (Some(next), None) => {
                let claimed = claimed(conn, sql, &next.claim, &rows, parts.claim).await;
                if let (Some(prepared), Ok(claimed)) = (&kept.prepared, &claimed) {
                    prepared.met(matches!(claimed, Claimed::Duplicate(_)));
                }
                Some(claimed)
            }
        };
        Trip { ended: Ended::Done, open: claimed.is_some(), claimed, broken }
    }

    async fn claim_many(
        conn: &mut PgConnection,
        sql: &PgSql,
        claims: &[Claim<'_>],
        isolation: Option<Isolation>,
        wait: Duration,
    ) -> Result<Option<ClaimedMany<PgMark>>, sqlx::Error> {
        let mut rows = raw_sql(sql.claim_many(claims, isolation, wait)).fetch_all(conn).await?;
        let marked = rows.pop().ok_or(sqlx::Error::RowNotFound)?;
        let mut claimed: HashMap<Uuid, usize> = HashMap::with_capacity(rows.len());
        for row in &rows {
            *claimed.entry(row.try_get(0)?).or_default() += 1;
        }
        // Fewer rows than names: applied under another of them. What was claimed for it here only says the same again.
        let names = claims.first().map_or(1, |claim| claim.names.len());
        let fresh: HashSet<Uuid> = claimed.into_iter().filter(|(_, rows)| *rows == names).map(|(id, _)| id).collect();
        if fresh.is_empty() { Ok(None) } else { Ok(Some((mark(&marked)?, fresh))) }
    }

    const FLUSHES: Flushes = Flushes::Aside;

    async fn seal(conn: &mut PgConnection, sql: &PgSql) -> Result<(), sqlx::Error> {
        flush::seal(conn, sql).await
    }

    async fn flush(conn: &mut PgConnection, sql: &PgSql, _seal: &()) -> Result<(), sqlx::Error> {
        flush::flush(conn, sql).await
    }

    async fn unseal(conn: &mut PgConnection, sql: &PgSql, _seal: &()) -> Result<(), sqlx::Error> {
        flush::unseal(conn, sql).await
    }

    async fn cut(pool: &Pool<Self>, _watch: &(), mark: &PgMark) -> Result<(), BoxError> {
        // On a connection of its own: the pool may have none to spare. Whatever transaction the body has made of it, the session is ours.
        let mut side = PgConnection::connect_with(&pool.connect_options()).await?;
        let PgMark { pid, at, .. } = mark;
        let cancel = format!(
            "SELECT pg_catalog.pg_cancel_backend(pid) FROM pg_catalog.pg_stat_activity \
             WHERE pid = {pid} AND backend_start <= pg_catalog.to_timestamp({at})"
        );
        raw_sql(AssertSqlSafe(cancel)).execute(&mut side).await?;
        side.close().await?;
        Ok(())
    }

    async fn guard(conn: &mut PgConnection, sql: &PgSql, mark: &PgMark, failed: bool) -> Guarded {
        // All of it is read: an error in a later statement of the text counts too.
        let mut rows = raw_sql(sql.guard(&mark.xid, !failed)).fetch_all(&mut *conn).await;
        if failed && rows.as_ref().is_err_and(|e| code(e) == Some("57014")) {
            // A cancel request that the body had no statement for any more. It is used up.
            rows = raw_sql(sql.guard(&mark.xid, false)).fetch_all(&mut *conn).await;
        }
        let same = rows.and_then(|rows| rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get(0));
        match same {
            Ok(true) => Guarded::Sound,
            Ok(false) => Guarded::Escaped,
            Err(e) if code(&e) == Some("25P02") => aborted(conn, mark).await,
            Err(e) => Guarded::Lost(e),
        }
    }

    /// The session is the claim's, so there was no crash in between after which its id could be somebody else's.
    async fn fate(conn: &mut PgConnection, mark: &PgMark) -> Guarded {
        let status = query("SELECT pg_catalog.pg_xact_status($1::text::pg_catalog.xid8)").bind(&mark.xid);
        let status = status.persistent(false).fetch_one(conn).await.and_then(|row| row.try_get::<Option<String>, _>(0));
        match status {
            Ok(Some(status)) if status == "aborted" => Guarded::Aborted,
            // Committed, or prepared.
            Ok(_) => Guarded::Escaped,
            Err(e) => Guarded::Lost(e),
        }
    }

    async fn record_replies(conn: &mut PgConnection, sql: &PgSql, replies: &[(Claim<'_>, String)]) -> Result<u64, sqlx::Error> {
        let Some((first, _)) = replies.first() else { return Ok(0) };
        let ids: Vec<Uuid> = replies.iter().map(|(claim, _)| claim.id).collect();
        let texts: Vec<&str> = replies.iter().map(|(_, reply)| reply.as_str()).collect();
        let update = query(sql.reply.clone()).bind(first.name).bind(ids).bind(texts);
        Ok(update.persistent(false).execute(conn).await?.rows_affected())
    }

    async fn barrier(conn: &mut PgConnection, sql: &PgSql) -> Result<(), sqlx::Error> {
        raw_sql(sql.barrier()).execute(conn).await.map(drop)
    }

    async fn release(conn: &mut PgConnection, sql: &PgSql, kept: &PgKept) -> Result<(), sqlx::Error> {
        let text = if kept.prepared.is_some() { sql.release.clone() } else { "BEGIN".into_sql_str() };
        raw_sql(text).execute(conn).await.map(drop)
    }

    async fn force_rollback(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
        raw_sql("ROLLBACK").execute(conn).await.map(drop)
    }

    async fn reset(conn: &mut PgConnection, sql: &PgSql) -> Result<(), sqlx::Error> {
        if sql.resets {
            let rows = raw_sql(sql.reset.clone()).fetch_all(&mut *conn).await?;
            unchanged(conn, rows.last())
        } else {
            // What sqlx has queued is sent with it.
            conn.ping().await
        }
    }

    fn read(error: &sqlx::Error) -> SqlFault {
        match code(error) {
            Some("40001" | "40P01") => SqlFault::Conflict,
            Some("55P03") => SqlFault::InFlight,
            Some("25P02") => SqlFault::Aborted,
            Some("25006" | "26000") => SqlFault::BadSession,
            _ => SqlFault::Other,
        }
    }

    fn refused(error: &sqlx::Error) -> bool {
        // FATAL and PANIC end the session: they may come after the commit.
        database_error(error).is_some_and(|e| matches!(e.severity(), PgSeverity::Error))
    }

    async fn migrate(pool: &Pool<Self>, options: &Options) -> Result<(), MigrateError> {
        migrate::migrate(pool, &options.tables).await
    }

    async fn verify(conn: &mut PoolConnection<Self>, options: &Options, sql: &PgSql) -> Result<Vec<String>, sqlx::Error> {
        verify::verify(conn, options, sql).await
    }

    async fn store_dead_letter(conn: &mut PgConnection, sql: &PgSql, letter: &DeadLetterRow<'_>) -> Result<(), sqlx::Error> {
        query(sql.dead_letter.clone())
            .bind(letter.consumer)
            .bind(letter.id)
            .bind(letter.reason)
            .bind(&letter.error)
            .bind(letter.attempts)
            .bind(&letter.source)
            .bind(&letter.transport_id)
            .bind(&letter.topic)
            .bind(letter.key)
            .bind(&letter.headers)
            .bind(letter.payload)
            .persistent(false)
            .execute(conn)
            .await
            .map(drop)
    }
}
