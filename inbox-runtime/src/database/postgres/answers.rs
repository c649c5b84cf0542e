//! What the server answers to a string of statements, read by position.

use futures_core::stream::BoxStream;
use futures_util::TryStreamExt;
use sqlx::{
    Connection, Either, PgConnection, Postgres, Row,
    postgres::{PgDatabaseError, PgQueryResult, PgRow},
    raw_sql,
};

use super::{
    dialect::PgMark,
    sql::{PgSql, Place},
};
use crate::engine::contract::{
    database::{Claim, Claimed, Dialect, Guarded, Recorded},
    trip::{End, Ended, Trip},
};

/// What came back for a string of statements, up to the first error.
pub(super) struct Heard {
    /// How many statements were completed.
    pub(super) done: usize,
    /// Each with the number of the statement that it belongs to.
    pub(super) rows: Vec<(usize, PgRow)>,
    pub(super) error: Option<sqlx::Error>,
}

impl Heard {
    pub(super) async fn from(mut results: BoxStream<'_, Result<Either<PgQueryResult, PgRow>, sqlx::Error>>) -> Self {
        let mut heard = Self { done: 0, rows: Vec::new(), error: None };
        loop {
            match results.try_next().await {
                Ok(Some(Either::Left(_done))) => heard.done += 1,
                Ok(Some(Either::Right(row))) => heard.rows.push((heard.done, row)),
                Ok(None) => return heard,
                Err(e) => {
                    heard.error = Some(e);
                    return heard;
                }
            }
        }
    }
}

/// Reads the claim that stands there.
pub(super) async fn claimed(
    conn: &mut PgConnection,
    sql: &PgSql,
    claim: &Claim<'_>,
    rows: &[(usize, PgRow)],
    place: Place,
) -> Result<Claimed<PgMark>, sqlx::Error> {
    let of = |number: usize| rows.iter().filter(move |(statement, _)| *statement == number).map(|(_, row)| row);
    let inserted = of(place.insert).count();
    if inserted == claim.names.len() {
        return Ok(Claimed::Fresh(mark(of(place.insert).next().ok_or(sqlx::Error::RowNotFound)?)?));
    }
    let again;
    let row = match place.recorded {
        Some(recorded) if inserted == 0 => of(recorded).next(),
        _ => {
            if inserted > 0 {
                // Applied under another of its names. What was claimed here is taken back, and was read as if it were the row that stood there.
                raw_sql("ROLLBACK AND CHAIN").execute(&mut *conn).await?;
            }
            again = raw_sql(sql.recorded(claim)).fetch_optional(conn).await?;
            again.as_ref()
        }
    };
    // Gone meanwhile: purged between two statements. It was applied.
    let Some(row) = row else { return Ok(Claimed::Duplicate(Recorded::default())) };
    Ok(Claimed::Duplicate(Recorded { reply: row.try_get(0)?, fingerprint: row.try_get(1)?, durable: row.try_get(2)? }))
}

pub(super) fn mark(claim: &PgRow) -> Result<PgMark, sqlx::Error> {
    let xid: Option<String> = claim.try_get(0)?;
    let xid = xid.ok_or_else(|| sqlx::Error::Protocol("a claim that inserted has no transaction id".to_owned()))?;
    Ok(PgMark { xid, pid: claim.try_get(1)?, at: claim.try_get(2)? })
}

/// What went wrong at the end of a transaction, `done` statements into it.
pub(super) async fn ended(conn: &mut PgConnection, end: End<'_, PgMark>, done: usize, error: sqlx::Error) -> Trip<PgMark> {
    match end {
        // Nothing runs behind an error of the server, so COMMIT was not reached.
        End::Commit { mark, .. } if done == 0 && database_error(&error).is_some() => match code(&error) {
            Some("22012") => Trip::failed(Ended::Escaped),
            Some("25P02") => match aborted(conn, mark).await {
                Guarded::Aborted => Trip { ended: Ended::Aborted, claimed: None, open: true, broken: false },
                Guarded::Lost(e) => Trip::failed(Ended::Lost(e)),
                Guarded::Escaped | Guarded::Sound => Trip::failed(Ended::Escaped),
            },
            _ => Trip::failed(Ended::Lost(error)),
        },
        End::Commit { .. } if done > 0 && Postgres::refused(&error) => {
            Trip { ended: Ended::Refused(error), claimed: None, open: false, broken: false }
        }
        End::Commit { .. } => Trip::failed(Ended::Unknown(error)),
        End::Nothing | End::Rollback | End::Barrier => Trip::failed(Ended::Lost(error)),
    }
}

/// An aborted transaction, but is it the claim's? After `COMMIT; BEGIN` it is another one, and the claim stands.
pub(super) async fn aborted(conn: &mut PgConnection, mark: &PgMark) -> Guarded {
    // AND CHAIN, so that the rollback that follows has something to end.
    match raw_sql("ROLLBACK AND CHAIN").execute(&mut *conn).await {
        Ok(_) => Postgres::fate(conn, mark).await,
        Err(e) => Guarded::Lost(e),
    }
}

/// The last row of a reset. After DEALLOCATE ALL the next body would use statements that are gone; after PREPARE it would meet one that it did
/// not write.
pub(super) fn unchanged(conn: &PgConnection, counts: Option<&PgRow>) -> Result<(), sqlx::Error> {
    let counts = counts.ok_or(sqlx::Error::RowNotFound)?;
    let (ours, by_text): (i64, i64) = (counts.try_get(0)?, counts.try_get(1)?);
    if by_text == 0 && usize::try_from(ours).is_ok_and(|ours| ours >= conn.cached_statements_size()) {
        Ok(())
    } else {
        Err(sqlx::Error::Protocol("a body has changed the session's prepared statements".to_owned()))
    }
}

pub(super) fn database_error(error: &sqlx::Error) -> Option<&PgDatabaseError> {
    error.as_database_error()?.try_downcast_ref()
}

pub(super) fn code(error: &sqlx::Error) -> Option<&str> {
    database_error(error).map(PgDatabaseError::code)
}
