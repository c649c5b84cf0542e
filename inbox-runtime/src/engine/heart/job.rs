use std::{convert::Infallible, time::Duration};

use tokio::{sync::oneshot, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    in_flight::Turn,
    inbox::Inbox,
    patience::{Next, Patience},
    process::{Finished, Order, Work},
};
use crate::{engine::contract::database::InboxDatabase, vocabulary::error::ProcessError};

/// A message for a consumer whose turn it is in this process, and somebody who waits for what becomes of it.
pub(crate) struct Job<DB: InboxDatabase, W: Work<DB>> {
    pub(super) order: Order,
    pub(super) work: W,
    pub(super) cancel: CancellationToken,
    /// It met a session that was of no use, once.
    pub(super) moved: bool,
    /// With how many others at most it may share a transaction, after it has spoilt one or was there.
    pub(super) limit: u16,
    /// Since when it waits.
    pub(super) since: Instant,
    patience: Patience,
    turn: Turn,
    caller: oneshot::Sender<Finished<W::Value, W::Error>>,
}

impl<DB: InboxDatabase, W: Work<DB>> Job<DB, W> {
    /// Waits for its turn, as long as a claim may. `None`: the caller is told.
    pub(super) async fn enter(
        inbox: &Inbox<DB>,
        order: Order,
        work: W,
        cancel: CancellationToken,
        caller: oneshot::Sender<Finished<W::Value, W::Error>>,
    ) -> Option<Self> {
        let shared = &inbox.shared;
        let turn = tokio::select! {
            turn = shared.in_flight.enter(order.name, order.id.as_uuid(), shared.options.claim_wait) => turn,
            () = cancel.cancelled() => None,
        };
        let Some(turn) = turn else {
            let error = if cancel.is_cancelled() { ProcessError::Cancelled } else { ProcessError::InFlight };
            drop(caller.send(Err(error)));
            return None;
        };
        Some(Self {
            order,
            work,
            cancel,
            moved: false,
            limit: u16::MAX,
            since: Instant::now(),
            patience: Patience::new(inbox),
            turn,
            caller,
        })
    }

    /// From now on in a transaction of its own.
    pub(super) const fn alone(mut self) -> Self {
        self.limit = 1;
        self
    }

    /// Its end before it has begun.
    pub(crate) fn withdraw(self) {
        drop(self.judge(Err(ProcessError::Cancelled)));
    }

    /// Its end, or the job again and the pause before its next attempt. At its end the message's turn is over before the caller hears of it.
    pub(super) fn judge(mut self, result: Finished<W::Value, W::Error>) -> Option<(Self, Duration)> {
        match self.patience.judge::<DB, W>(&self.order, result, &self.work) {
            Next::Again(pause) => Some((self, pause)),
            Next::Finished(result) => {
                let Self { order, turn, caller, .. } = self;
                drop(turn);
                // An escape that nobody waits for is at least logged.
                if matches!(caller.send(result), Err(Err(ProcessError::TransactionEscaped))) {
                    tracing::error!(consumer = order.name, id = %order.id, "{}", ProcessError::<Infallible>::TransactionEscaped);
                }
                None
            }
        }
    }
}
