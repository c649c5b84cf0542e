//! The safe entry: a consumer called by its name, without a broker.

use std::{marker::PhantomData, time::Duration};

use futures_core::future::BoxFuture;
use sqlx::Transaction;
use tokio_util::sync::CancellationToken;

use super::{
    consumer::Registration,
    inbox::AsInbox,
    process::{Order, Work, process},
};
use crate::{
    engine::contract::database::InboxDatabase,
    vocabulary::{
        error::ProcessError,
        id::MessageId,
        outcome::{BatchProof, BatchResult, HandlerResult, Outcome, Proof},
    },
};

/// What a safe entry gives, for a body that gives `R`.
pub type Called<R> = BoxFuture<'static, Result<Outcome<<R as HandlerResult>::Value>, ProcessError<<R as HandlerResult>::Error>>>;

/// For the attribute: the whole of the safe entry.
///
/// Boxed, so that the caller's future holds no type of ours with the handler's error in it: with `Box<dyn Error + Send + Sync>` as that
/// error the compiler could not prove such a future to be `Send`, and the entry could not be spawned.
#[doc(hidden)]
pub fn direct<DB, P, F>(_proof: P, inbox: &impl AsInbox<DB>, registration: Registration, id: MessageId, body: F) -> Called<P::Result>
where
    DB: InboxDatabase,
    P: Proof,
    F: for<'a, 'c> FnOnce(&'a mut Transaction<'c, DB>) -> BoxFuture<'a, P::Result> + Send + 'static,
{
    let inbox = inbox.as_inbox();
    Box::pin(async move {
        let facts = registration.facts();
        let (name, names) = (facts.name, facts.names());
        let order = Order {
            name,
            names,
            isolation: facts.isolation,
            timeout: facts.timeout,
            group: 1,
            linger: Duration::ZERO,
            id,
            fingerprint: None,
        };
        let work = Once { body: Some(body), result: PhantomData::<fn() -> P::Result> };
        let cancel = CancellationToken::new();
        let _cut = cancel.clone().drop_guard();
        let processed = process(&inbox, None, order, work, &cancel).await?;
        tracing::debug!(consumer = name, %id, applied = processed.outcome.is_applied(), "called");
        Ok(processed.outcome)
    })
}

/// The same for a body that takes many messages: this is one.
#[doc(hidden)]
pub fn direct_of_batch<DB, P, F>(
    _proof: P,
    inbox: &impl AsInbox<DB>,
    registration: Registration,
    id: MessageId,
    body: F,
) -> Called<<P::Result as BatchResult>::One>
where
    DB: InboxDatabase,
    P: BatchProof,
    F: for<'a, 'c> FnOnce(&'a mut Transaction<'c, DB>) -> BoxFuture<'a, P::Result> + Send + 'static,
{
    let proof = <<P::Result as BatchResult>::One as HandlerResult>::proof();
    direct(proof, inbox, registration, id, move |tx| {
        let batch = body(tx);
        Box::pin(async move { batch.await.one() })
    })
}

/// A body whose arguments are owned: it runs once.
struct Once<F, R> {
    body: Option<F>,
    result: PhantomData<fn() -> R>,
}

impl<DB, R, F> Work<DB> for Once<F, R>
where
    DB: InboxDatabase,
    R: HandlerResult,
    F: for<'a, 'c> FnOnce(&'a mut Transaction<'c, DB>) -> BoxFuture<'a, R> + Send + 'static,
{
    type Value = R::Value;
    type Error = R::Error;

    fn ready(&self) -> bool {
        self.body.is_some()
    }

    fn run<'a, 'c>(&'a mut self, tx: &'a mut Transaction<'c, DB>) -> BoxFuture<'a, Result<R::Value, R::Error>> {
        let body = self.body.take();
        Box::pin(async move {
            // `ready` is asked before each run.
            let body = body.expect("a body runs once");
            body(tx).await.split()
        })
    }

    fn reply(value: &R::Value) -> Result<Option<String>, serde_json::Error> {
        R::encode(value)
    }

    fn recorded(reply: Option<&str>) -> Result<R::Value, serde_json::Error> {
        R::decode(reply)
    }
}
