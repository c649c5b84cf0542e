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
        let mut results = raw_sql(sql.claim(claim)).fetch_many(conn);
        while let Some(next) = results.try_next().await? {
            match next {
                Either::Left(_done) => statement += 1,
                Either::Right(_) if statement == INSERT => claimed += 1,
                Either::Right(found) if statement == STATE => state = Some(found),
                Either::Right(found) => row = Some(found),
            }
        }
        let state = state.ok_or(sqlx::Error::RowNotFound)?;
        if claimed == claim.names.len() {
            let xid: Option<String> = state.try_get(0)?;
            let xid = xid.ok_or_else(|| sqlx::Error::Protocol("a claim that inserted has no transaction id".to_owned()))?;
            return Ok(Claimed::Fresh(PgMark { xid, pid: state.try_get(1)? }));
        }
        // Gone meanwhile: purged between two statements. It was applied.
        let Some(row) = row else { return Ok(Claimed::Duplicate(Recorded::default())) };
        Ok(Claimed::Duplicate(Recorded { reply: row.try_get(0)?, fingerprint: row.try_get(1)?, durable: state.try_get(2)? }))
    }

    async fn cut(pool: &Pool<Self>, _watch: &(), mark: &PgMark) -> Result<(), BoxError> {
        // On a connection of its own: the pool may have none to spare. The transaction id makes sure that it is still ours.
        let mut side = PgConnection::connect_with(&pool.connect_options()).await?;
        query(
            "SELECT pg_catalog.pg_cancel_backend(pid) FROM pg_catalog.pg_stat_activity \
             WHERE pid = $1 AND backend_xid::text = ($2::text::bigint & 4294967295)::text",
        )
        .bind(mark.pid)
        .bind(&mark.xid)
        .execute(&mut side)
        .await?;
        side.close().await?;
        Ok(())
    }

    async fn guard(conn: &mut PgConnection, sql: &PgSql, mark: &PgMark, failed: bool) -> Guarded {
        // All of it is read: an error in a later statement of the text counts too.
        let rows = raw_sql(sql.guard(&mark.xid, !failed)).fetch_all(conn).await;
        let same = rows.and_then(|rows| rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get(0));
        match same {
            Ok(true) => Guarded::Sound,
            Ok(false) => Guarded::Escaped,
            Err(e) if code(&e) == Some("25P02") => Guarded::Aborted,
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
        const RESET: &str = "RESET SESSION AUTHORIZATION; RESET ALL; SELECT pg_catalog.pg_advisory_unlock_all(); DISCARD TEMP";
        if sql.reset {
            raw_sql(RESET).execute(conn).await.map(drop)
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
