#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! Every unit.

use inbox_runtime::{MessageId, idempotent_consumer};
use sqlx::{Postgres, Transaction};

#[idempotent_consumer(name = "ms", timeout = "250ms")]
async fn ms(_tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[idempotent_consumer(name = "m", timeout = "15m")]
async fn m(_tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[idempotent_consumer(name = "h", timeout = "12h")]
async fn h(_tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    Ok(())
}

#[idempotent_consumer(name = "d", timeout = "7d", batch = 2, linger = "1m")]
async fn d(_tx: &mut Transaction<'_, Postgres>, _ids: Vec<MessageId>) -> Result<(), sqlx::Error> {
    Ok(())
}

fn main() {
    assert_eq!([ms::NAME, m::NAME, h::NAME, d::NAME].concat(), "msmhd");
}
