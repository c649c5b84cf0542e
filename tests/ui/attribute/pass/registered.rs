#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! What a registration tells.

use inbox_runtime::{Location, Registration, idempotent_consumer};
use sqlx::{Postgres, Transaction};

#[idempotent_consumer(name = "charged", topic = "orders")]
async fn charge(_tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
    Ok(())
}

const REGISTRATION: Registration = charge::registration();

fn main() {
    let Location { file, line, module, .. } = REGISTRATION.location();
    assert!(file.ends_with("registered.rs"), "{file}");
    assert_eq!((line, module), (8, module_path!()));
    assert_eq!(REGISTRATION.name(), charge::NAME);
}
