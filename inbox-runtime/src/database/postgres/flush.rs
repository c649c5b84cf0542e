//! A commit that waits for the disk makes durable all that committed before it began, here and on the synchronous standbys: the log is one.

use sqlx::{PgConnection, raw_sql};

use super::{answers::code, sql::PgSql};

pub(super) async fn seal(conn: &mut PgConnection, sql: &PgSql) -> Result<(), sqlx::Error> {
    if sql.is_plain() {
        return Err(sqlx::Error::Configuration("`Durability::BeforeAck` needs sessions of its own, not those of a proxy".into()));
    }
    raw_sql(sql.seal.clone()).execute(conn).await.map(drop)
}

pub(super) async fn flush(conn: &mut PgConnection, sql: &PgSql) -> Result<(), sqlx::Error> {
    let flushed = raw_sql(sql.flush.clone()).execute(conn).await.map(drop);
    if flushed.as_ref().err().and_then(code) == Some("26000") {
        sql.go_plain();
    }
    flushed
}

pub(super) async fn unseal(conn: &mut PgConnection, sql: &PgSql) -> Result<(), sqlx::Error> {
    raw_sql(sql.unseal.clone()).execute(conn).await.map(drop)
}
