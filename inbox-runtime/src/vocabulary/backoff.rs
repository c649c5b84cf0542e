use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Between attempts: doubles from the first to the longest, half of it jitter, so that two that met once do not meet again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
}

impl Backoff {
    pub(crate) const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// The pause after so many failures, the first of which is 1.
    pub(crate) fn after(self, failures: u32) -> Duration {
        let doubled = self.first.saturating_mul(1_u32 << failures.saturating_sub(1).min(16)).min(self.longest);
        doubled / 2 + (doubled / 2).mul_f64(spread())
    }
}

/// From 0 to 1; the clock's last digits are random enough to keep workers apart.
fn spread() -> f64 {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
    f64::from(nanos % 1_000) / 1_000.0
}
