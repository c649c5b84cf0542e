#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! The entry, the body and the name are as visible as the function.

use inbox_runtime::{MessageId, idempotent_consumer};
use sqlx::{PgPool, Postgres, Transaction};

mod handlers {
    use super::*;

    #[idempotent_consumer(name = "inner")]
    pub(super) async fn inner(_tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
        Ok(())
    }
}

/// Everybody's.
#[idempotent_consumer(name = "outer")]
pub async fn outer(tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    handlers::inner::body(tx).await
}

/// Both, by their entries.
pub async fn call(pool: &PgPool, id: MessageId) -> bool {
    handlers::inner(pool, id).await.is_ok() && outer(pool, id).await.is_ok()
}

fn main() {
    assert_eq!(handlers::inner::registration().name(), outer::NAME.replace("outer", "inner"));
}
