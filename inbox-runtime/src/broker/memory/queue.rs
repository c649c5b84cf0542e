use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt,
    num::NonZeroU16,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::{sync::Notify, time::Instant};

use super::{faults::Faults, subscription::MemorySubscription};
use crate::{
    engine::contract::{
        broker::{Broker, BrokerError},
        lease::Lease,
    },
    vocabulary::message::Message,
};

/// The queue. Clones are the same queue; each `subscribe` is another consumer of it.
#[derive(Clone)]
pub struct Memory {
    pub(super) shared: Arc<Shared>,
    lease: Duration,
}

pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    pub(super) arrived: Notify,
}

pub(super) struct State {
    pub(super) ready: VecDeque<Ready>,
    pub(super) held: HashMap<u64, Held>,
    pub(super) faults: Faults,
    pub(super) random: fastrand::Rng,
    pub(super) counts: MemoryCounts,
    pub(super) down: bool,
    next: u64,
}

/// Waits to be delivered.
pub(super) struct Ready {
    pub(super) at: Instant,
    pub(super) attempt: u32,
    pub(super) number: u64,
    pub(super) message: Message,
}

/// Delivered, not settled.
pub(super) struct Held {
    /// The subscription's number.
    pub(super) by: u64,
    pub(super) lease: Lease,
    pub(super) attempt: u32,
    pub(super) number: u64,
    pub(super) message: Message,
}

/// What a queue has seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryCounts {
    /// Messages published.
    pub published: u64,
    /// Deliveries handed out.
    pub deliveries: u64,
    /// Deliveries settled as done.
    pub done: u64,
    /// Deliveries settled as dead letters.
    pub dead_lettered: u64,
    /// Deliveries given back.
    pub retried: u64,
    /// Waiting to be delivered.
    pub ready: u64,
    /// Delivered and not settled.
    pub held: u64,
}

impl Memory {
    /// An empty queue without faults; a delivery is ours for 30 s, and may be extended.
    #[must_use]
    pub fn new() -> Self {
        Self::with_faults(Faults::seeded(0))
    }

    /// An empty queue with these faults.
    #[must_use]
    pub fn with_faults(faults: Faults) -> Self {
        let random = fastrand::Rng::with_seed(faults.seed);
        let state =
            State { ready: VecDeque::new(), held: HashMap::new(), faults, random, counts: MemoryCounts::default(), down: false, next: 0 };
        let shared = Shared { state: Mutex::new(state), arrived: Notify::new() };
        Self { shared: Arc::new(shared), lease: Duration::from_secs(30) }
    }

    /// How long a delivery is ours before it comes again.
    #[must_use]
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Puts a message at the end.
    pub fn publish(&self, message: Message) {
        let mut state = self.shared.lock();
        let number = state.number();
        state.counts.published += 1;
        state.ready.push_back(Ready { at: Instant::now(), attempt: 0, number, message });
        drop(state);
        self.shared.arrived.notify_waiters();
    }

    /// Takes the broker away, or gives it back. Calls fail meanwhile, and what was held comes again.
    pub fn set_down(&self, down: bool) {
        self.shared.lock().down = down;
    }

    /// What it has seen so far, and what it holds.
    #[must_use]
    pub fn counts(&self) -> MemoryCounts {
        let mut state = self.shared.lock();
        state.reclaim();
        MemoryCounts { ready: state.ready.len() as u64, held: state.held.len() as u64, ..state.counts }
    }

    /// Whether everything is settled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let counts = self.counts();
        counts.ready + counts.held == 0
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("counts", &self.counts()).field("lease", &self.lease).finish_non_exhaustive()
    }
}

impl Broker for Memory {
    type Subscription = MemorySubscription;

    fn name(&self) -> String {
        "memory".to_owned()
    }

    async fn subscribe(&self, prefetch: NonZeroU16) -> Result<MemorySubscription, BrokerError> {
        let number = self.shared.up()?.number();
        Ok(MemorySubscription::new(Arc::clone(&self.shared), number, self.lease, prefetch))
    }
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, if the broker can be reached by this call.
    pub(super) fn up(&self) -> Result<MutexGuard<'_, State>, BrokerError> {
        let mut state = self.not_down()?;
        let unavailable = state.faults.unavailable;
        if state.happens(unavailable) { Err(away()) } else { Ok(state) }
    }

    /// The state, unless the broker was taken away.
    pub(super) fn not_down(&self) -> Result<MutexGuard<'_, State>, BrokerError> {
        let state = self.lock();
        if state.down { Err(away()) } else { Ok(state) }
    }
}

fn away() -> BrokerError {
    BrokerError::unavailable("the in-memory broker is down")
}

impl State {
    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn happens(&mut self, rate: f64) -> bool {
        rate > 0.0 && self.random.f64() < rate
    }

    /// What is held under a lease that ended comes again.
    pub(super) fn reclaim(&mut self) {
        let now = Instant::now();
        let (live, lost): (HashMap<u64, Held>, HashMap<u64, Held>) =
            std::mem::take(&mut self.held).into_iter().partition(|(_, held)| held.lease.is_live());
        self.held = live;
        let mut lost: Vec<Held> = lost.into_values().collect();
        lost.sort_by_key(|held| held.number);
        let again = lost.into_iter().map(|Held { attempt, number, message, .. }| Ready { at: now, attempt, number, message });
        self.ready.extend(again);
    }

    /// How many a subscription holds.
    pub(super) fn held_by(&self, subscription: u64) -> usize {
        self.held.values().filter(|held| held.by == subscription).count()
    }

    /// The next that is due: the first whose turn it is, or any.
    pub(super) fn take(&mut self, subscription: u64) -> Option<Ready> {
        let now = Instant::now();
        let turns = self.turns(subscription);
        let is_due = |ready: &Ready| ready.at <= now && (self.faults.shuffle || turns.may_go(ready));
        let due: Vec<usize> = self.ready.iter().enumerate().filter(|(_, ready)| is_due(ready)).map(|(i, _)| i).collect();
        let at = if self.faults.shuffle && !due.is_empty() { due.get(self.random.usize(..due.len())) } else { due.first() };
        self.ready.remove(*at?)
    }

    fn turns(&self, subscription: u64) -> Turns {
        let mut turns = Turns::default();
        for Ready { number, message, .. } in &self.ready {
            if let Some(key) = &message.key {
                let first = turns.first.entry(key.clone()).or_insert(*number);
                *first = (*first).min(*number);
            }
        }
        let elsewhere = self.held.values().filter(|held| held.by != subscription);
        turns.elsewhere = elsewhere.filter_map(|held| held.message.key.clone()).collect();
        turns
    }
}

/// Messages with one key go one after the other: none while an earlier one waits for its retry, or while another subscription holds one.
#[derive(Default)]
struct Turns {
    first: HashMap<Bytes, u64>,
    elsewhere: HashSet<Bytes>,
}

impl Turns {
    fn may_go(&self, ready: &Ready) -> bool {
        let Some(key) = &ready.message.key else { return true };
        self.first.get(key) == Some(&ready.number) && !self.elsewhere.contains(key)
    }
}
