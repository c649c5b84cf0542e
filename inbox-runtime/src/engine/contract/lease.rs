use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Whether a delivery may still be settled. One for all of a channel or a partition's epoch, or one for each delivery.
#[derive(Debug, Clone, Default)]
pub struct Lease {
    ended: CancellationToken,
    until: Arc<Mutex<Option<Instant>>>,
}

impl Lease {
    /// A lease without an end in time.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A lease that runs out by itself. `at` counts from before the request for the delivery was sent.
    #[must_use]
    pub fn until(at: Instant) -> Self {
        Self { until: Arc::new(Mutex::new(Some(at))), ..Self::default() }
    }

    /// A lease that runs out by itself at `at`, and ends with this one: a delivery's within its session's.
    #[must_use]
    pub fn child_until(&self, at: Instant) -> Self {
        Self { ended: self.ended.child_token(), until: Arc::new(Mutex::new(Some(at))) }
    }

    /// Moves the end; `at` counts from before the request for it was sent. One that ran out stays ended: somebody else may
    /// hold the message by now.
    pub fn renew(&self, at: Instant) {
        if self.is_live() {
            *self.end_of_time() = Some(at);
        }
    }

    /// Ends it now: the partition was revoked, the channel is dead.
    pub fn end(&self) {
        self.ended.cancel();
    }

    /// Whether a settle would still be this delivery's.
    #[must_use]
    pub fn is_live(&self) -> bool {
        if self.end_of_time().is_some_and(|at| at <= Instant::now()) {
            self.end();
        }
        !self.ended.is_cancelled()
    }

    /// Resolves at [`Lease::end`], not when time runs out. Cancel safe.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    fn end_of_time(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
