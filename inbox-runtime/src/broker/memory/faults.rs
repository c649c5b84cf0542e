use std::time::Duration;

/// What goes wrong, how often (0.0 to 1.0), from one seed: the same seed and the same calls give the same faults.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Faults {
    pub(super) seed: u64,
    pub(super) duplicate: f64,
    pub(super) lose_settle: f64,
    pub(super) shuffle: bool,
    pub(super) unavailable: f64,
    pub(super) delay: Duration,
}

impl Faults {
    /// No faults yet, from this seed.
    pub const fn seeded(seed: u64) -> Self {
        Self { seed, duplicate: 0.0, lose_settle: 0.0, shuffle: false, unavailable: 0.0, delay: Duration::ZERO }
    }

    /// How often a message is delivered once more although it is held or done; once a message.
    pub const fn duplicate(mut self, rate: f64) -> Self {
        self.duplicate = rate;
        self
    }

    /// How often a settle is accepted and lost: the message comes again.
    pub const fn lose_settle(mut self, rate: f64) -> Self {
        self.lose_settle = rate;
        self
    }

    /// Messages come in any order.
    pub const fn shuffle(mut self) -> Self {
        self.shuffle = true;
        self
    }

    /// How often a call finds the broker out of reach. What the subscription held comes again.
    pub const fn unavailable(mut self, rate: f64) -> Self {
        self.unavailable = rate;
        self
    }

    /// How long a retry is delayed at most, whatever was asked; for tests that cannot wait. Zero: as asked.
    pub const fn cap_retry(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}
