//! The two consumers, for each database: the transaction's type is part of a handler. Their SQL is the same on both.

pub(crate) mod postgres;
pub(crate) mod sqlite;

/// Both names: durable, they stand in every inbox row.
pub(crate) const NAMES: [&str; 2] = ["billing", "inventory"];

pub(crate) const CREDIT: &str = "UPDATE accounts SET balance_cents = balance_cents + $1 WHERE id = $2";
pub(crate) const TAKE: &str = "UPDATE stock SET units = units - $1 WHERE sku = $2";
/// One row for each time that a consumer has done its work; nothing stops a second one. The report counts these.
pub(crate) const NOTE: &str = "INSERT INTO ledger (consumer, event_id) VALUES ($1, $2)";

/// Why an order could not be applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("there is no account {0}")]
    NoAccount(i64),
    #[error("there is no article `{0}`")]
    NoArticle(String),
    // Not `transparent`: that would hide the database's error from whoever looks for it in the chain of causes.
    #[error("the database failed: {0}")]
    Database(#[from] sqlx::Error),
}
