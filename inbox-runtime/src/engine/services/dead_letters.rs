use std::{error::Error, sync::Arc};

use bytes::Bytes;
use serde_json::{Value, json};
use sqlx::Connection;
use tokio::time::timeout;

use crate::{
    engine::{
        contract::{
            database::{DeadLetterRow, InboxDatabase},
            delivery::Origin,
            receipt::{Proof, Receipt, Ticket},
        },
        heart::{inbox::Inbox, process::Order, task::database_to_the_end},
    },
    vocabulary::{error::causes, headers::Headers, id::MessageId, message::Message},
};

/// Why a message was set aside; stands in the column `reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    NoId,
    NoEventType,
    Unmatched,
    Rejected,
    Reply,
    PayloadMismatch,
    TransactionEscaped,
}

impl Reason {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::NoId => "no_id",
            Self::NoEventType => "no_event_type",
            Self::Unmatched => "unmatched",
            Self::Rejected => "rejected",
            Self::Reply => "reply",
            Self::PayloadMismatch => "payload_mismatch",
            Self::TransactionEscaped => "transaction_escaped",
        }
    }
}

/// A message that is to be set aside.
#[derive(Debug)]
pub(crate) struct DeadLetter {
    pub(crate) consumer: Option<&'static str>,
    pub(crate) id: Option<MessageId>,
    pub(crate) reason: Reason,
    pub(crate) error: String,
    pub(crate) source: String,
    pub(crate) origin: Origin,
    pub(crate) message: Arc<Message>,
}

/// Writes it and commits, durably; only then is there a receipt. If the commit's answer is lost the message comes again and is stored once
/// more: in the same row, if it names its consumer and has an id. In a task of its own, so that a caller that goes away does not cut it.
pub(super) async fn store<DB: InboxDatabase>(inbox: &Inbox<DB>, letter: DeadLetter, ticket: Ticket) -> Result<Receipt, sqlx::Error> {
    database_to_the_end(write(inbox.clone(), Arc::new(letter), None)).await?;
    Ok(Receipt::new(ticket, Proof::DeadLettered))
}

/// That of a message whose consumer has escaped: for a person to look at, so no receipt comes of it. What the body applied outside of the
/// transaction stands, so the message is claimed as well: its next delivery, after a restart, must not apply that again.
pub(super) async fn store_escaped<DB: InboxDatabase>(inbox: &Inbox<DB>, letter: DeadLetter, order: Order) -> Result<(), sqlx::Error> {
    let inbox = inbox.clone();
    database_to_the_end(async move {
        let letter = Arc::new(letter);
        match write(inbox.clone(), Arc::clone(&letter), Some(order)).await {
            Ok(()) => Ok(()),
            Err(error) => {
                tracing::warn!(%error, "the message of an escaped consumer could not be claimed with its dead letter");
                write(inbox, letter, None).await
            }
        }
    })
    .await
}

async fn write<DB: InboxDatabase>(inbox: Inbox<DB>, letter: Arc<DeadLetter>, claimed: Option<Order>) -> Result<(), sqlx::Error> {
    let (sql, limit) = (&inbox.shared.sql, inbox.shared.options.step_timeout);
    let mut conn = inbox.pool().acquire().await?;
    let write = async {
        let mut tx = conn.begin_with(DB::begin(None)).await?;
        if let Some(order) = &claimed {
            DB::claim(&mut tx, sql, &order.claim()).await?;
        }
        DB::store_dead_letter(&mut tx, sql, &letter.row()).await?;
        DB::barrier(&mut tx, sql).await?;
        tx.commit().await
    };
    let written = timeout(limit, write).await.unwrap_or_else(|late| Err(sqlx::Error::Io(late.into())));
    if let Err(error) = written {
        conn.close_on_drop();
        return Err(error);
    }
    let (consumer, reason) = (letter.consumer.unwrap_or("none"), letter.reason.as_str());
    metrics::counter!("inbox_dead_letters_total", "consumer" => consumer, "reason" => reason).increment(1);
    tracing::warn!(consumer, id = ?letter.id, reason, error = %letter.error, source = letter.source, "dead letter stored");
    Ok(())
}

impl DeadLetter {
    fn row(&self) -> DeadLetterRow<'_> {
        let attempts = self.origin.attempt.unwrap_or(1);
        DeadLetterRow {
            consumer: self.consumer,
            id: self.id.map(|id| id.as_uuid()),
            reason: self.reason.as_str(),
            error: without_nul(&self.error),
            attempts: i32::try_from(attempts).unwrap_or(i32::MAX),
            source: without_nul(&self.source),
            transport_id: self.origin.transport_id.as_deref().map(without_nul),
            topic: without_nul(&self.message.topic),
            key: self.message.key.as_deref(),
            headers: headers_json(&self.message.headers),
            payload: self.message.payload.as_deref(),
        }
    }
}

/// PostgreSQL's text cannot hold the character NUL; bytes that must stay as they are go into `bytea`.
fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// A list of `[name, value]`; JSON escapes NUL, and what is not UTF-8 stands as hex.
fn headers_json(headers: &Headers) -> String {
    let value = |bytes: &Bytes| match std::str::from_utf8(bytes) {
        Ok(text) => Value::from(text),
        Err(_) => json!({ "hex": hex(bytes) }),
    };
    let pairs = headers.iter().map(|(name, bytes)| json!([name, bytes.map(value)]));
    Value::Array(pairs.collect()).to_string()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An error with all that caused it.
pub(crate) fn chain(error: &dyn Error) -> String {
    format!("{error}{}", causes(error))
}
