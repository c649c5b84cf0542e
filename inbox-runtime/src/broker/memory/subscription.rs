use std::{fmt, num::NonZeroU16, sync::Arc, time::Duration};

use tokio::time::{Instant, timeout_at};

use super::queue::{Held, Ready, Shared, State};
use crate::engine::contract::{
    broker::{BrokerError, Subscription, Terms},
    delivery::{Delivery, Origin},
    lease::Lease,
    settle::{Settle, Settled, Verdict},
};

/// One consumer of a [`Memory`](super::Memory) queue. When it is dropped, what it held comes again.
pub struct MemorySubscription {
    shared: Arc<Shared>,
    number: u64,
    lease: Duration,
    prefetch: NonZeroU16,
    session: Lease,
}

/// The delivery's number in the queue.
#[derive(Debug)]
pub struct MemoryHandle(u64);

impl MemorySubscription {
    pub(super) fn new(shared: Arc<Shared>, number: u64, lease: Duration, prefetch: NonZeroU16) -> Self {
        Self { shared, number, lease, prefetch, session: Lease::new() }
    }

    fn deliver(&self, state: &mut State, ready: Ready) -> Delivery<MemoryHandle> {
        let Ready { attempt, number, message, .. } = ready;
        let attempt = attempt + 1;
        let lease = self.session.child_until(Instant::now() + self.lease);
        let held = Held { by: self.number, lease: lease.clone(), attempt, number, message: message.clone() };
        let handle = state.number();
        state.held.insert(handle, held);
        state.counts.deliveries += 1;
        let duplicate = state.faults.duplicate;
        // Once a message: a copy that is doubled in its turn would soon be more than anybody can ack.
        if attempt == 1 && state.happens(duplicate) {
            // The same message once more, while the first is held.
            state.ready.push_back(Ready { at: Instant::now(), attempt, number, message: message.clone() });
        }
        let origin = Origin { transport_id: Some(format!("memory/{number}")), order_key: message.key.clone(), attempt: Some(attempt) };
        Delivery::new(message, origin, lease, MemoryHandle(handle))
    }
}

impl Subscription for MemorySubscription {
    type Handle = MemoryHandle;

    fn terms(&self) -> Terms {
        Terms { lease: Some(self.lease), horizon: None }
    }

    async fn receive(&self, max: NonZeroU16, wait: Duration) -> Result<Vec<Delivery<MemoryHandle>>, BrokerError> {
        // Leases that run out make no noise, so it looks again now and then.
        const LOOK: Duration = Duration::from_millis(10);
        let deadline = Instant::now() + wait;
        let (max, prefetch) = (usize::from(max.get()), usize::from(self.prefetch.get()));
        // A fault strikes a call, not each look of it.
        drop(self.shared.up()?);
        loop {
            let arrived = self.shared.arrived.notified();
            {
                let mut state = self.shared.not_down()?;
                state.reclaim();
                let most = max.min(prefetch.saturating_sub(state.held_by(self.number)));
                let mut out = Vec::new();
                while out.len() < most
                    && let Some(ready) = state.take(self.number)
                {
                    out.push(self.deliver(&mut state, ready));
                }
                if !out.is_empty() || Instant::now() >= deadline {
                    return Ok(out);
                }
            }
            // Either way it looks again.
            let _ = timeout_at(deadline.min(Instant::now() + LOOK), arrived).await;
        }
    }

    async fn extend(&self, held: &[&Delivery<MemoryHandle>]) -> Result<(), BrokerError> {
        let until = Instant::now() + self.lease;
        drop(self.shared.up()?);
        held.iter().for_each(|delivery| delivery.lease().renew(until));
        Ok(())
    }

    async fn settle(&self, batch: Vec<Settle<MemoryHandle>>) -> Result<Vec<Settled>, BrokerError> {
        let mut state = self.shared.up()?;
        let settled = batch.into_iter().map(Settle::into_parts).map(|(MemoryHandle(handle), verdict)| {
            let lose = state.faults.lose_settle;
            if state.happens(lose) {
                // Taken and lost: it comes again when its lease is over, which is now.
                if let Some(held) = state.held.get(&handle) {
                    held.lease.end();
                }
                return Settled::Sent;
            }
            let Some(Held { attempt, number, message, .. }) = state.held.remove(&handle) else { return Settled::Late };
            match verdict {
                Verdict::Done => state.counts.done += 1,
                Verdict::DeadLettered => state.counts.dead_lettered += 1,
                Verdict::Retry { after } => {
                    let most = state.faults.delay;
                    let after = if most.is_zero() { after } else { after.min(most) };
                    state.counts.retried += 1;
                    state.ready.push_back(Ready { at: Instant::now() + after, attempt, number, message });
                }
            }
            Settled::Sent
        });
        Ok(settled.collect())
    }

    async fn close(&self) -> Result<(), BrokerError> {
        Ok(())
    }
}

impl Drop for MemorySubscription {
    fn drop(&mut self) {
        self.session.end();
    }
}

impl fmt::Debug for MemorySubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemorySubscription").field("lease", &self.lease).finish_non_exhaustive()
    }
}
