#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! Lifetimes of the function's own.

use inbox_runtime::{Json, Reply, idempotent_consumer};
use sqlx::{PgTransaction, Postgres, Sqlite, SqliteTransaction, Transaction};
use std::borrow::Cow;

#[idempotent_consumer(name = "named")]
async fn named<'c>(tx: &mut Transaction<'c, Postgres>) -> Result<(), sqlx::Error> {
    let _: &mut Transaction<'c, Postgres> = tx;
    Ok(())
}

#[idempotent_consumer(name = "both")]
async fn both<'a, 'c: 'a>(tx: &'a mut PgTransaction<'c>) -> Result<(), sqlx::Error> {
    let _: &'a mut PgTransaction<'c> = tx;
    Ok(())
}

#[idempotent_consumer(name = "elided")]
async fn elided(_: &mut SqliteTransaction<'_>, Json(text): Json<Cow<'static, str>>) -> Result<Reply<String>, sqlx::Error> {
    Ok(Reply(text.into_owned()))
}

type Tx<'c> = Transaction<'c, Sqlite>;

#[idempotent_consumer(name = "alias")]
async fn alias(_tx: &mut Tx<'_>) -> Result<(), sqlx::Error> {
    Ok(())
}

fn main() {
    assert_eq!([named::NAME, both::NAME, elided::NAME, alias::NAME].len(), 4);
}
