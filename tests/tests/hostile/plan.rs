//! What one schedule does, decided by its seed: per message and attempt, and by the broker.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use fastrand::Rng;
use inbox_runtime::{Message, MessageId, broker::Faults};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub(crate) const MESSAGES: usize = 50;
pub(crate) const TOPIC: &str = "hostile";
/// After so many bad attempts a message is left alone, so that a schedule ends.
const BAD_ATTEMPTS: u32 = 3;

/// How one attempt of a body goes. The effect is always written first, except where it says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Succeed,
    /// Succeeds after this long.
    Slow(Duration),
    /// Fails before its effect.
    FailEarly,
    Fail,
    Panic,
    /// A statement fails, and the body returns `Ok` all the same.
    Swallow,
    /// Waits, without a statement, for longer than it may.
    Hang,
    /// Waits in a statement for longer than it may.
    HangInSql,
    /// Ends the session that it runs in, and returns the error.
    KillOwn,
    /// The same, but returns `Ok`.
    KillOwnQuietly,
    /// Its session is ended this long after it has succeeded: in the guard, in COMMIT, afterwards.
    KillSoon(Duration),
    /// Ends the session of somebody else.
    KillOther,
    /// Rolls back, as text, and returns `Ok`.
    Rollback,
    /// Rolls back and begins another transaction, and returns `Ok`.
    Reopen,
    /// Commits, as text, and returns `Ok`.
    Commit,
}

impl Act {
    /// Whether it ends its transaction itself, which stops the consumer.
    pub(crate) const fn escapes(self) -> bool {
        matches!(self, Self::Rollback | Self::Reopen | Self::Commit)
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Payment {
    pub(crate) account: i64,
    pub(crate) amount: i64,
}

/// One message of a schedule.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) id: Uuid,
    pub(crate) payment: Payment,
    /// How often the producer sends it.
    pub(crate) copies: u32,
}

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) sent: Vec<Sent>,
    pub(crate) faults: Faults,
    /// How long a delivery is a worker's before the broker gives it to another.
    pub(crate) lease: Duration,
    escapes: bool,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    attempts: HashMap<Uuid, u32>,
    escaped: Vec<Uuid>,
    wrong: Vec<String>,
}

impl Plan {
    /// The schedule of this seed, on accounts that nobody else uses: the four from `account` on.
    pub(crate) fn new(seed: u64, account: i64) -> Self {
        let mut random = Rng::with_seed(seed);
        let sent = (0..MESSAGES).map(|_| Sent {
            // Not from the seed: a replay may meet the rows of an earlier run.
            id: Uuid::new_v4(),
            payment: Payment { account: account + random.i64(0..4), amount: random.i64(1..1_000) },
            copies: if random.u32(0..8) == 0 { 2 } else { 1 },
        });
        let sent = sent.collect();
        let mut faults = Faults::seeded(random.u64(..)).cap_retry(Duration::from_millis(3));
        faults = faults.duplicate(random.f64() * 0.2).lose_settle(random.f64() * 0.15).unavailable(random.f64() * 0.02);
        if random.bool() {
            faults = faults.shuffle();
        }
        let lease = Duration::from_millis(random.u64(60..400));
        Self { seed, sent, faults, lease, escapes: random.u32(0..8) == 0, seen: Mutex::default() }
    }

    /// What this attempt of the message does.
    pub(crate) fn next(&self, id: MessageId) -> Act {
        let Some(index) = self.sent.iter().position(|sent| sent.id == id.as_uuid()) else {
            self.wrong(format!("{id} is none of this schedule's"));
            return Act::FailEarly;
        };
        let mut seen = self.seen();
        let attempt = seen.attempts.entry(id.as_uuid()).or_default();
        *attempt += 1;
        let act = act(self.seed, index, *attempt, self.escapes);
        if act.escapes() {
            seen.escaped.push(id.as_uuid());
        }
        act
    }

    pub(crate) fn message(sent: &Sent) -> Message {
        let payload = serde_json::to_vec(&sent.payment).expect("a payment is JSON");
        Message::new(TOPIC, payload).with_header("event-id", sent.id.to_string())
    }

    /// Notes something that must not happen.
    pub(crate) fn wrong(&self, what: String) {
        self.seen().wrong.push(what);
    }

    pub(crate) fn take_wrong(&self) -> Vec<String> {
        std::mem::take(&mut self.seen().wrong)
    }

    /// The messages whose body has ended its transaction, each of which is a dead letter.
    pub(crate) fn escaped(&self) -> Vec<Uuid> {
        let mut escaped = self.seen().escaped.clone();
        escaped.sort_unstable();
        escaped.dedup();
        escaped
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn act(seed: u64, message: usize, attempt: u32, escapes: bool) -> Act {
    if attempt > BAD_ATTEMPTS {
        return Act::Succeed;
    }
    let own = (message as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(attempt).wrapping_mul(0xd1b5_4a32_d192_ed03);
    let mut random = Rng::with_seed(seed ^ own);
    match random.u32(0..1_000) {
        0..560 => Act::Succeed,
        560..640 => Act::Slow(Duration::from_millis(random.u64(1..10))),
        640..690 => Act::FailEarly,
        690..760 => Act::Fail,
        760..800 => Act::Panic,
        800..860 => Act::Swallow,
        860..867 => Act::Hang,
        867..870 => Act::HangInSql,
        870..890 => Act::KillOwn,
        890..910 => Act::KillOwnQuietly,
        910..950 => Act::KillSoon(Duration::from_micros(random.u64(0..4_000))),
        950..970 => Act::KillOther,
        _ if !escapes => Act::Succeed,
        970..980 => Act::Rollback,
        980..990 => Act::Reopen,
        _ => Act::Commit,
    }
}
