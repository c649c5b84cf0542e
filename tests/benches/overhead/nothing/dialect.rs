//! The steps of the heart where nothing is to be done.

use std::{num::NonZeroU16, time::Duration};

use inbox_runtime::{
    __private::{
        Claim, Claimed, ClaimedMany, DeadLetterRow, Dialect, End, Ended, Flushes, Guarded, Isolation, Next, Options, SqlFault, Trip,
    },
    InboxDatabase, MigrateError,
};
use sqlx::{Error, Pool, SqlSafeStr, SqlStr, pool::PoolConnection};

use super::{Nothing, connection::Connected};

impl InboxDatabase for Nothing {}

impl Dialect for Nothing {
    type Sql = ();
    type Watch = ();
    type Kept = ();
    type Seal = ();
    type Mark = ();

    const WORKERS: Option<NonZeroU16> = None;
    const FLUSHES: Flushes = Flushes::Between;

    fn sql(_options: &Options) {}

    fn begin(_isolation: Option<Isolation>) -> SqlStr {
        "BEGIN".into_sql_str()
    }

    async fn arm(_conn: &mut Connected) -> Result<(), Error> {
        Ok(())
    }

    async fn claim(_conn: &mut Connected, _sql: &(), _claim: &Claim<'_>) -> Result<Claimed<()>, Error> {
        Ok(Claimed::Fresh(()))
    }

    async fn keep(_conn: &mut Connected, _sql: &()) -> Result<(), Error> {
        Ok(())
    }

    async fn trip(_conn: &mut Connected, _sql: &(), _kept: &(), _end: End<'_, ()>, _reset: bool, next: Option<Next<'_>>) -> Trip<()> {
        Trip { ended: Ended::Done, claimed: next.map(|_| Ok(Claimed::Fresh(()))), open: next.is_some(), broken: false }
    }

    async fn claim_many(
        _conn: &mut Connected,
        _sql: &(),
        claims: &[Claim<'_>],
        _isolation: Option<Isolation>,
        _wait: Duration,
    ) -> Result<Option<ClaimedMany<()>>, Error> {
        Ok(Some(((), claims.iter().map(|claim| claim.id).collect())))
    }

    async fn seal(_conn: &mut Connected, _sql: &()) -> Result<(), Error> {
        Ok(())
    }

    async fn flush(_conn: &mut Connected, _sql: &(), _seal: &()) -> Result<(), Error> {
        Ok(())
    }

    async fn unseal(_conn: &mut Connected, _sql: &(), _seal: &()) -> Result<(), Error> {
        Ok(())
    }

    async fn cut(_pool: &Pool<Self>, _watch: &(), _mark: &()) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(())
    }

    async fn guard(_conn: &mut Connected, _sql: &(), _mark: &(), _failed: bool) -> Guarded {
        Guarded::Sound
    }

    async fn fate(_conn: &mut Connected, _mark: &()) -> Guarded {
        Guarded::Aborted
    }

    async fn record_replies(_conn: &mut Connected, _sql: &(), replies: &[(Claim<'_>, String)]) -> Result<u64, Error> {
        Ok(replies.len() as u64)
    }

    async fn barrier(_conn: &mut Connected, _sql: &()) -> Result<(), Error> {
        Ok(())
    }

    async fn release(_conn: &mut Connected, _sql: &(), _kept: &()) -> Result<(), Error> {
        Ok(())
    }

    async fn force_rollback(_conn: &mut Connected) -> Result<(), Error> {
        Ok(())
    }

    async fn reset(_conn: &mut Connected, _sql: &()) -> Result<(), Error> {
        Ok(())
    }

    fn read(_error: &Error) -> SqlFault {
        SqlFault::Other
    }

    fn refused(_error: &Error) -> bool {
        false
    }

    async fn migrate(_pool: &Pool<Self>, _options: &Options) -> Result<(), MigrateError> {
        Ok(())
    }

    async fn verify(_conn: &mut PoolConnection<Self>, _options: &Options, _sql: &()) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    async fn store_dead_letter(_conn: &mut Connected, _sql: &(), _letter: &DeadLetterRow<'_>) -> Result<(), Error> {
        Ok(())
    }
}
