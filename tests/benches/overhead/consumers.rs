//! The one that is measured, and others that want other topics.

use std::{convert::Infallible, sync::OnceLock};

use inbox_runtime::{FromMessage, Json, MessageContext, MessageId, Rejection, idempotent_consumer};
use sqlx::Transaction;

use crate::nothing::Nothing;

#[derive(Debug, Clone, Copy, serde::Deserialize)]
pub(crate) struct Payment {
    pub(crate) account_id: i64,
    pub(crate) amount_cents: i64,
}

#[idempotent_consumer(name = "payments", topic = "payments")]
pub(crate) async fn payments(_tx: &mut Transaction<'_, Nothing>, id: MessageId, Json(payment): Json<Payment>) -> Result<(), Infallible> {
    divan::black_box((id, payment.account_id, payment.amount_cents));
    Ok(())
}

/// What extractors are given.
pub(crate) static CONTEXT: OnceLock<MessageContext> = OnceLock::new();

pub(crate) struct Shown;

impl FromMessage for Shown {
    fn from_message(context: &MessageContext) -> Result<Self, Rejection> {
        CONTEXT.get_or_init(|| context.clone());
        Ok(Self)
    }
}

/// Shows its context.
#[idempotent_consumer(name = "showing", topic = "payments")]
pub(crate) async fn showing(_tx: &mut Transaction<'_, Nothing>, _shown: Shown) -> Result<(), Infallible> {
    Ok(())
}

macro_rules! others {
    ($($name:ident $text:literal,)*) => {
        $(
            #[idempotent_consumer(name = $text, topic = $text)]
            async fn $name(_tx: &mut Transaction<'_, Nothing>, Json(_payment): Json<Payment>) -> Result<(), Infallible> {
                Ok(())
            }
        )*

        pub(crate) const OTHERS: &[&str] = &[$($text),*];
    };
}

others! {
    audit "audit",
    billing "billing",
    catalogue "catalogue",
    delivery "delivery",
    emails "emails",
    fraud "fraud",
    // Sorted on both sides of the one that is measured.
    points "points",
    refunds "refunds",
    search "search",
    stock "stock",
}
