//! The two consumers on SQLite.

use inbox_runtime::{Json, MessageId, idempotent_consumer};
use sqlx::{Sqlite, Transaction, query};

use super::{CREDIT, Failure, NOTE, TAKE};
use crate::events::OrderPlaced;

/// Credits the account of an order.
#[idempotent_consumer(name = "billing", topic = "orders")]
pub(crate) async fn credit_account(tx: &mut Transaction<'_, Sqlite>, id: MessageId, Json(order): Json<OrderPlaced>) -> Result<(), Failure> {
    let credited = query(CREDIT).bind(order.amount_cents).bind(order.account_id).execute(&mut **tx).await?;
    if credited.rows_affected() == 0 {
        // An effect on no row is no effect: without this the order would count as billed.
        return Err(Failure::NoAccount(order.account_id));
    }
    query(NOTE).bind("billing").bind(id.to_string()).execute(&mut **tx).await?;
    Ok(())
}

/// Takes the units of an order from stock.
#[idempotent_consumer(name = "inventory", topic = "orders")]
pub(crate) async fn take_from_stock(
    tx: &mut Transaction<'_, Sqlite>,
    id: MessageId,
    Json(order): Json<OrderPlaced>,
) -> Result<(), Failure> {
    let taken = query(TAKE).bind(order.quantity).bind(&order.sku).execute(&mut **tx).await?;
    if taken.rows_affected() == 0 {
        return Err(Failure::NoArticle(order.sku));
    }
    query(NOTE).bind("inventory").bind(id.to_string()).execute(&mut **tx).await?;
    Ok(())
}
