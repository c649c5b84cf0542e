use futures_core::future::BoxFuture;
use sqlx::Transaction;

use crate::{
    engine::{
        contract::database::InboxDatabase,
        heart::{
            consumer::{Consumer, Shim},
            context::MessageContext,
            process::{RunMany, Work, one_by_one},
        },
    },
    vocabulary::error::{BatchFault, Fault, ProcessError},
};

/// A registered body and its message: it can run as often as it takes.
pub(super) struct Call<DB: InboxDatabase> {
    pub(super) consumer: &'static Consumer<DB>,
    pub(super) context: MessageContext,
}

impl<DB: InboxDatabase> Work<DB> for Call<DB> {
    /// The reply as JSON, if the consumer replies.
    type Value = Option<String>;
    type Error = Fault;

    fn ready(&self) -> bool {
        true
    }

    fn run<'a, 'c>(&'a mut self, tx: &'a mut Transaction<'c, DB>) -> BoxFuture<'a, Result<Option<String>, Fault>> {
        match self.consumer.shim {
            Shim::One(invoke) => invoke(tx, &self.context),
            Shim::Batch(invoke) => Box::pin(async move {
                let mut replies = invoke(tx, &[&self.context]).await.map_err(BatchFault::of_one)?;
                Ok(replies.pop().flatten())
            }),
        }
    }

    fn takes_many(&self) -> bool {
        matches!(self.consumer.shim, Shim::Batch(_))
    }

    fn run_many<'a, 'c>(many: Vec<&'a mut Self>, tx: &'a mut Transaction<'c, DB>) -> BoxFuture<'a, RunMany<DB, Self>> {
        let Some(Shim::Batch(invoke)) = many.first().map(|call| &call.consumer.shim) else { return one_by_one(many, tx) };
        Box::pin(async move {
            let contexts: Vec<&MessageContext> = many.iter().map(|call| &call.context).collect();
            invoke(tx, &contexts).await
        })
    }

    fn reply(value: &Option<String>) -> Result<Option<String>, serde_json::Error> {
        Ok(value.clone())
    }

    fn recorded(reply: Option<&str>) -> Result<Option<String>, serde_json::Error> {
        Ok(reply.map(str::to_owned))
    }

    fn sql_error(error: &Fault) -> Option<&sqlx::Error> {
        match error {
            Fault::Failed(e) => sqlx_error(e.as_ref()),
            Fault::Rejected(_) | Fault::Reply(_) => None,
        }
    }
}
/// What a known cause asks for, where its own text does not say it.
pub(super) fn hint(error: &ProcessError<Fault>) -> Option<&'static str> {
    match error {
        ProcessError::Handler(Fault::Failed(e)) if matches!(sqlx_error(e.as_ref()), Some(sqlx::Error::PoolTimedOut)) => {
            Some("the body waited for a second connection of the pool while it holds one: write through its transaction instead")
        }
        _ => None,
    }
}

fn sqlx_error<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e sqlx::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<sqlx::Error>() {
            return Some(found);
        }
        next = error.source();
    }
    None
}
