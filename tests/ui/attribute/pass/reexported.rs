#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! The runtime under another path, as a facade crate has it.

use sqlx::{Postgres, Transaction};

mod facade {
    pub(crate) use inbox_runtime::*;
    pub(crate) mod inbox {
        pub(crate) use inbox_runtime::__private;
    }
}

#[facade::idempotent_consumer(name = "billing", crate = crate::facade::inbox)]
async fn charge(tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE accounts SET balance = 0").execute(&mut **tx).await?;
    Ok(())
}

fn main() {}
