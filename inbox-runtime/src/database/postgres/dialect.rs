use futures_util::TryStreamExt;
use sqlx::SqlSafeStr;
use sqlx::{
    Connection, Either, PgConnection, Pool, Postgres, Row, SqlStr,
    pool::PoolConnection,
    postgres::{PgDatabaseError, PgRow, PgSeverity},
    query, raw_sql,
};

use super::{commit_guard, migrate, sql::PgSql, verify};
use crate::{
    engine::contract::database::{
        Claim, Claimed, CommitGuard, DeadLetterRow, Dialect, Guarded, InboxDatabase, MigrateError, Recorded, SqlFault,
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
    xid: String,
    pid: i32,
    /// When it claimed, in seconds: whatever backend has this pid and is older is the one that claimed.
    at: String,
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
        // In the order of the text: SET, INSERT, SET, the state of the session, the row.
        const INSERT: usize = 1;
        const STATE: usize = 3;
        let (mut statement, mut claimed) = (0, 0);
        let (mut state, mut row): (Option<PgRow>, Option<PgRow>) = (None, None);
        let mut results = raw_sql(sql.claim(claim)).fetch_many(&mut *conn);
        while let Some(next) = results.try_next().await? {
            match next {
                Either::Left(_done) => statement += 1,
                Either::Right(_) if statement == INSERT => claimed += 1,
                Either::Right(found) if statement == STATE => state = Some(found),
                Either::Right(found) => row = Some(found),
            }
        }
        drop(results);
        let state = state.ok_or(sqlx::Error::RowNotFound)?;
        if claimed == claim.names.len() {
            let xid: Option<String> = state.try_get(0)?;
            let xid = xid.ok_or_else(|| sqlx::Error::Protocol("a claim that inserted has no transaction id".to_owned()))?;
            return Ok(Claimed::Fresh(PgMark { xid, pid: state.try_get(1)?, at: state.try_get(3)? }));
        }
        if claimed > 0 {
            // Applied under another of its names. What was claimed here is taken back, and was read as if it were the row that stood there.
            raw_sql("ROLLBACK AND CHAIN").execute(&mut *conn).await?;
            row = raw_sql(sql.recorded(claim)).fetch_optional(conn).await?;
        }
        // Gone meanwhile: purged between two statements. It was applied.
        let Some(row) = row else { return Ok(Claimed::Duplicate(Recorded::default())) };
        Ok(Claimed::Duplicate(Recorded { reply: row.try_get(0)?, fingerprint: row.try_get(1)?, durable: state.try_get(2)? }))
    }

    async fn cut(pool: &Pool<Self>, _watch: &(), mark: &PgMark) -> Result<(), BoxError> {
        // On a connection of its own: the pool may have none to spare. Whatever transaction the body has made of it, the session is ours.
        let mut side = PgConnection::connect_with(&pool.connect_options()).await?;
        query(
            "SELECT pg_catalog.pg_cancel_backend(pid) FROM pg_catalog.pg_stat_activity \
             WHERE pid = $1 AND backend_start <= pg_catalog.to_timestamp($2::text::float8)",
        )
        .bind(mark.pid)
        .bind(&mark.at)
        .execute(&mut side)
        .await?;
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
            Err(e) if code(&e) == Some("25P02") => {
                // An aborted transaction, but is it the claim's? After `COMMIT; BEGIN` it is another one, and the claim stands.
                // AND CHAIN, so that the rollback that follows has something to end.
                match raw_sql("ROLLBACK AND CHAIN").execute(&mut *conn).await {
                    Ok(_) => Self::fate(conn, mark).await,
                    Err(e) => Guarded::Lost(e),
                }
            }
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

    async fn record_reply(conn: &mut PgConnection, sql: &PgSql, claim: &Claim<'_>, reply: &str) -> Result<u64, sqlx::Error> {
        let update = query(sql.reply.clone()).bind(reply).bind(claim.name).bind(claim.id);
        Ok(update.persistent(false).execute(conn).await?.rows_affected())
    }

    async fn barrier(conn: &mut PgConnection, sql: &PgSql) -> Result<(), sqlx::Error> {
        raw_sql(sql.barrier()).execute(conn).await.map(drop)
    }

    async fn force_rollback(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
        raw_sql("ROLLBACK").execute(conn).await.map(drop)
    }

    async fn reset(conn: &mut PgConnection, sql: &PgSql) -> Result<(), sqlx::Error> {
        const RESET: &str = "CLOSE ALL; UNLISTEN *; RESET SESSION AUTHORIZATION; RESET ALL; SELECT pg_catalog.pg_advisory_unlock_all(); \
                             DISCARD TEMP; SELECT pg_catalog.count(*) FILTER (WHERE NOT from_sql), pg_catalog.count(*) FILTER (WHERE from_sql) \
                             FROM pg_catalog.pg_prepared_statements";
        if sql.reset {
            let rows = raw_sql(RESET).fetch_all(&mut *conn).await?;
            let last = rows.last().ok_or(sqlx::Error::RowNotFound)?;
            let (ours, prepared): (i64, i64) = (last.try_get(0)?, last.try_get(1)?);
            // DEALLOCATE ALL: the next body would use statements that are gone. PREPARE: it would meet one that it did not write.
            let gone = usize::try_from(ours).is_ok_and(|ours| ours < conn.cached_statements_size());
            let foreign = gone || prepared > 0;
            if foreign { Err(sqlx::Error::Protocol("a body has changed the session's prepared statements".to_owned())) } else { Ok(()) }
        } else {
            // What sqlx has queued is sent with it.
            conn.ping().await
        }
    }

    fn read(error: &sqlx::Error) -> SqlFault {
        match code(error) {
            Some("40001" | "40P01") => SqlFault::Conflict,
            Some("55P03") => SqlFault::InFlight,
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

fn database_error(error: &sqlx::Error) -> Option<&PgDatabaseError> {
    error.as_database_error()?.try_downcast_ref()
}

fn code(error: &sqlx::Error) -> Option<&str> {
    database_error(error).map(PgDatabaseError::code)
}
