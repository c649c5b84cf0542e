use std::{
    collections::HashSet,
    num::NonZeroU16,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sqlx::{Connection, Pool, Row, SqlSafeStr, SqlStr, Sqlite, SqliteConnection, pool::PoolConnection, query, raw_sql};
use uuid::Uuid;

use super::{
    flush::{self, SqliteSeal},
    migrate,
    sql::SqliteSql,
    verify,
};
use crate::{
    engine::contract::{
        database::{
            Claim, Claimed, ClaimedMany, DeadLetterRow, Dialect, Flushes, Guarded, InboxDatabase, MigrateError, Recorded, SqlFault,
        },
        trip::{End, Ended, Next, Trip},
    },
    vocabulary::{
        config::{Isolation, Options},
        error::BoxError,
    },
};

/// Set right after the claim and released before COMMIT: where it is gone, the transaction of the claim is gone.
const GUARD: &str = "inbox_guard";

/// Interrupts what the session runs, once it is set.
type SqliteWatch = Arc<AtomicBool>;

/// The claimed row.
#[derive(Debug)]
#[expect(unnameable_types, reason = "reachable through a sealed trait only")]
pub struct SqliteMark {
    name: &'static str,
    id: Uuid,
    /// Set by the session's next commit, whoever makes it.
    committed: Arc<AtomicBool>,
}

impl InboxDatabase for Sqlite {}

impl Dialect for Sqlite {
    type Sql = SqliteSql;
    type Watch = SqliteWatch;
    type Kept = ();
    type Seal = SqliteSeal;
    type Mark = SqliteMark;

    fn sql(options: &Options) -> SqliteSql {
        SqliteSql::new(options)
    }

    /// The write lock is taken here, so that a claim never has to upgrade a read that another writer has overtaken.
    fn begin(_isolation: Option<Isolation>) -> SqlStr {
        "BEGIN IMMEDIATE".into_sql_str()
    }

    async fn arm(conn: &mut SqliteConnection) -> Result<SqliteWatch, sqlx::Error> {
        // Often enough to cut a statement within a millisecond or so, rarely enough to cost nothing.
        const EVERY: i32 = 2_000;
        let cut = SqliteWatch::default();
        let watch = Arc::clone(&cut);
        conn.lock_handle().await?.set_progress_handler(EVERY, move || !watch.load(Ordering::Relaxed));
        Ok(cut)
    }

    async fn claim(conn: &mut SqliteConnection, sql: &SqliteSql, claim: &Claim<'_>) -> Result<Claimed<SqliteMark>, sqlx::Error> {
        let claimed = insert(conn, sql, claim).await?;
        if claimed.len() == claim.names.len() {
            return Ok(Claimed::Fresh(mark(conn, claim.name, claim.id).await?));
        }
        // One writer, whose commits are flushed before another can begin, unless it has said that they are not.
        let mut recorded = Recorded { durable: !flush::is_announced(conn, sql).await?, ..Recorded::default() };
        // A name that was free was claimed just now, and is rolled back: its row says nothing.
        for name in claim.names.iter().filter(|name| !claimed.iter().any(|claimed| claimed == *name)) {
            let row = query(sql.recorded.clone()).bind(name).bind(claim.id).fetch_optional(&mut *conn).await?;
            if let Some(row) = row {
                recorded.reply = recorded.reply.or(row.try_get(0)?);
                recorded.fingerprint = recorded.fingerprint.or(row.try_get(1)?);
            }
        }
        Ok(Claimed::Duplicate(recorded))
    }

    /// There is one writer.
    const WORKERS: Option<NonZeroU16> = Some(NonZeroU16::MIN);

    async fn keep(_conn: &mut SqliteConnection, _sql: &SqliteSql) -> Result<(), sqlx::Error> {
        Ok(())
    }

    async fn trip(
        conn: &mut SqliteConnection,
        sql: &SqliteSql,
        _kept: &(),
        end: End<'_, SqliteMark>,
        _reset: bool,
        next: Option<Next<'_>>,
    ) -> Trip<SqliteMark> {
        let end_sql = match end {
            End::Nothing => None,
            End::Rollback => Some("ROLLBACK".into_sql_str()),
            End::Barrier => Some(sql.commit_barrier.clone()),
            End::Commit { .. } => Some("COMMIT".into_sql_str()),
        };
        if let End::Commit { mark, .. } = end {
            match prove(conn, sql, mark, false).await {
                Guarded::Sound => {}
                Guarded::Escaped => return Trip::failed(Ended::Escaped),
                Guarded::Aborted => return Trip::failed(Ended::Aborted),
                Guarded::Lost(e) => return Trip::failed(Ended::Lost(e)),
            }
        }
        if let Some(end_sql) = end_sql
            && let Err(e) = raw_sql(end_sql).execute(&mut *conn).await
        {
            return match end {
                // Of a deferred constraint; the transaction stays open.
                End::Commit { .. } if Self::refused(&e) => Trip { ended: Ended::Refused(e), claimed: None, open: true, broken: false },
                End::Commit { .. } => Trip::failed(Ended::Unknown(e)),
                _ => Trip::failed(Ended::Lost(e)),
            };
        }
        let Some(next) = next else { return Trip { ended: Ended::Done, claimed: None, open: false, broken: false } };
        if let Err(e) = raw_sql(Self::begin(next.isolation)).execute(&mut *conn).await {
            let busy = Self::read(&e) == SqlFault::Busy;
            return Trip { ended: Ended::Done, claimed: Some(Err(e)), open: !busy, broken: !busy };
        }
        let claimed = Self::claim(conn, sql, &next.claim).await;
        let broken = claimed.as_ref().is_err_and(|e| e.as_database_error().is_none());
        Trip { ended: Ended::Done, claimed: Some(claimed), open: true, broken }
    }

    async fn claim_many(
        conn: &mut SqliteConnection,
        sql: &SqliteSql,
        claims: &[Claim<'_>],
        isolation: Option<Isolation>,
        _wait: Duration,
    ) -> Result<Option<ClaimedMany<SqliteMark>>, sqlx::Error> {
        raw_sql(Self::begin(isolation)).execute(&mut *conn).await?;
        let (mut name, mut fresh) = ("", HashSet::with_capacity(claims.len()));
        // Within the process a statement for each costs no more than a long one for all.
        for claim in claims {
            // Fewer rows than names: applied under another of them. What was claimed for it here only says the same again.
            if insert(conn, sql, claim).await?.len() == claim.names.len() {
                (name, _) = (claim.name, fresh.insert(claim.id));
            }
        }
        let Some(one) = fresh.iter().next().copied() else { return Ok(None) };
        Ok(Some((mark(conn, name, one).await?, fresh)))
    }

    const FLUSHES: Flushes = Flushes::Between;

    async fn seal(conn: &mut SqliteConnection, sql: &SqliteSql) -> Result<SqliteSeal, sqlx::Error> {
        flush::seal(conn, sql).await
    }

    async fn flush(conn: &mut SqliteConnection, sql: &SqliteSql, _seal: &SqliteSeal) -> Result<(), sqlx::Error> {
        flush::flush(conn, sql).await
    }

    async fn unseal(conn: &mut SqliteConnection, _sql: &SqliteSql, seal: &SqliteSeal) -> Result<(), sqlx::Error> {
        flush::unseal(conn, seal).await
    }

    async fn cut(_pool: &Pool<Self>, watch: &SqliteWatch, _mark: &SqliteMark) -> Result<(), BoxError> {
        watch.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn guard(conn: &mut SqliteConnection, sql: &SqliteSql, mark: &SqliteMark, failed: bool) -> Guarded {
        match prove(conn, sql, mark, failed).await {
            // It is proven once more with the commit.
            Guarded::Sound => match raw_sql("SAVEPOINT inbox_guard").execute(conn).await {
                Ok(_) => Guarded::Sound,
                Err(e) => Guarded::Lost(e),
            },
            spoilt => spoilt,
        }
    }

    async fn fate(_conn: &mut SqliteConnection, _mark: &SqliteMark) -> Guarded {
        // sqlx sends nothing late here.
        Guarded::Escaped
    }

    async fn record_replies(conn: &mut SqliteConnection, sql: &SqliteSql, replies: &[(Claim<'_>, String)]) -> Result<u64, sqlx::Error> {
        let mut recorded = 0;
        for (claim, reply) in replies {
            let update = query(sql.reply.clone()).bind(reply).bind(claim.name).bind(claim.id);
            recorded += update.execute(&mut *conn).await?.rows_affected();
        }
        Ok(recorded)
    }

    async fn barrier(conn: &mut SqliteConnection, sql: &SqliteSql) -> Result<(), sqlx::Error> {
        raw_sql(sql.barrier.clone()).execute(conn).await.map(drop)
    }

    async fn release(conn: &mut SqliteConnection, _sql: &SqliteSql, _kept: &()) -> Result<(), sqlx::Error> {
        raw_sql("BEGIN").execute(conn).await.map(drop)
    }

    async fn force_rollback(conn: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        raw_sql("ROLLBACK").execute(conn).await.map(drop)
    }

    async fn reset(conn: &mut SqliteConnection, _sql: &SqliteSql) -> Result<(), sqlx::Error> {
        conn.ping().await
    }

    fn read(error: &sqlx::Error) -> SqlFault {
        match primary_code(error) {
            Some(5 | 6) => SqlFault::Busy,
            _ => SqlFault::Other,
        }
    }

    fn refused(error: &sqlx::Error) -> bool {
        // SQLITE_IOERR: the log may hold the commit all the same.
        primary_code(error).is_some_and(|code| code != 10)
    }

    async fn migrate(pool: &Pool<Self>, options: &Options) -> Result<(), MigrateError> {
        migrate::migrate(pool, &options.tables).await
    }

    async fn verify(conn: &mut PoolConnection<Self>, options: &Options, sql: &SqliteSql) -> Result<Vec<String>, sqlx::Error> {
        verify::verify(conn, options, sql).await
    }

    async fn store_dead_letter(conn: &mut SqliteConnection, sql: &SqliteSql, letter: &DeadLetterRow<'_>) -> Result<(), sqlx::Error> {
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
            .execute(conn)
            .await
            .map(drop)
    }
}

/// The names that were free.
async fn insert(conn: &mut SqliteConnection, sql: &SqliteSql, claim: &Claim<'_>) -> Result<Vec<String>, sqlx::Error> {
    let mut insert = query(sql.claim(claim.names.len())).bind(claim.id).bind(claim.fingerprint);
    for name in claim.names {
        insert = insert.bind(name);
    }
    insert.fetch_all(conn).await?.iter().map(|row| row.try_get(0)).collect()
}

/// Of the claim that the open transaction holds.
async fn mark(conn: &mut SqliteConnection, name: &'static str, id: Uuid) -> Result<SqliteMark, sqlx::Error> {
    raw_sql("SAVEPOINT inbox_guard").execute(&mut *conn).await?;
    let mark = SqliteMark { name, id, committed: Arc::default() };
    let committed = Arc::clone(&mark.committed);
    let note = move || {
        committed.store(true, Ordering::Relaxed);
        true
    };
    conn.lock_handle().await?.set_commit_hook(note);
    Ok(mark)
}

fn primary_code(error: &sqlx::Error) -> Option<i32> {
    let code: i32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(code & 0xff)
}

/// Takes the savepoint away that marks the claim's transaction, if it is there.
async fn prove(conn: &mut SqliteConnection, sql: &SqliteSql, mark: &SqliteMark, failed: bool) -> Guarded {
    if failed {
        // Waits for the statement that was cut.
        match conn.lock_handle().await {
            Ok(mut handle) => handle.remove_progress_handler(),
            Err(e) => return Guarded::Lost(e),
        }
    }
    let release = raw_sql("RELEASE inbox_guard").execute(&mut *conn).await;
    match release {
        // Before ours there is no commit: the body has committed the claim, or has rolled it back and something of its own was committed after.
        _ if mark.committed.load(Ordering::Relaxed) => Guarded::Escaped,
        Ok(_) => Guarded::Sound,
        // A body that says that all is well, after what took its work away.
        Err(e) if is_gone(&e) && !failed => Guarded::Escaped,
        Err(e) if is_gone(&e) => gone(conn, sql, mark).await,
        Err(e) => Guarded::Lost(e),
    }
}

/// The savepoint is gone, nothing was committed, and the body has failed. SQLite rolls back by itself when a statement is interrupted, finds the
/// disk full, or says `RAISE(ROLLBACK)`. A body that did it by text has nothing applied either, unless it has begun anew.
async fn gone(conn: &mut SqliteConnection, sql: &SqliteSql, mark: &SqliteMark) -> Guarded {
    match query(sql.recorded.clone()).bind(mark.name).bind(mark.id).fetch_optional(&mut *conn).await {
        // Still in its transaction: the body has released the savepoint, so what it did since is anybody's guess.
        Ok(Some(_)) => Guarded::Escaped,
        Ok(None) => match raw_sql("ROLLBACK").execute(conn).await {
            Ok(_) => Guarded::Escaped,
            // SQLITE_ERROR: there was none.
            Err(e) if primary_code(&e) == Some(1) => Guarded::Aborted,
            Err(e) => Guarded::Lost(e),
        },
        Err(e) => Guarded::Lost(e),
    }
}

fn is_gone(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|e| e.message().contains("no such savepoint") && e.message().contains(GUARD))
}
