//! Runs schedules, several at once, until all have held or one has not.

use std::{
    collections::BTreeMap,
    num::NonZeroU16,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use inbox_runtime::{
    Dispatcher, Durability, IdFrom, Intake, Message, MessageId, RunError, Runner,
    broker::{Memory, Verdict},
};
use inbox_tests::watched::{Watch, Watched};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    field::{Field, Found, Ground},
    plan::{Plan, TOPIC},
};

const WORKERS: usize = 4;
/// A schedule takes a second or so.
const STUCK: Duration = Duration::from_secs(90);

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not `{text}`")))
}

/// All schedules, at once as many as there are fields (which may be one and the same). `INBOX_HOSTILE_SCHEDULES` says how many.
/// `INBOX_HOSTILE_SEED` takes one alone, that often: the seed decides what each attempt does, but not who meets whom.
pub(crate) async fn all<DB: Ground>(fields: Vec<Arc<Field<DB>>>) {
    let schedules = number("INBOX_HOSTILE_SCHEDULES");
    let (first, step, count) = match number("INBOX_HOSTILE_SEED") {
        Some(seed) => (seed, 0, schedules.unwrap_or(1)),
        None => (fastrand::u64(..u64::from(u32::MAX)), 1, schedules.unwrap_or(1_000)),
    };
    if std::env::var_os("RUST_LOG").is_some() {
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        drop(tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init());
    }
    println!("{}: {count} schedules from seed {first}", DB::NAME);
    let (next, held) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (over, failure) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(None)));
    let mut lanes = JoinSet::new();
    for field in fields {
        let (next, held, over, failure) = (next.clone(), held.clone(), over.clone(), failure.clone());
        lanes.spawn(async move {
            while !over.load(Ordering::Relaxed) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return;
                }
                let seed = first + step * number;
                let wrong = schedule(&field, seed, number).await;
                if wrong.is_empty() {
                    held.fetch_add(1, Ordering::Relaxed);
                } else if !over.swap(true, Ordering::Relaxed) {
                    let held = held.load(Ordering::Relaxed);
                    let report = format!(
                        "{}: the schedule of seed {seed} failed after {held} that held (INBOX_HOSTILE_SEED={seed} runs it alone):\n  {}",
                        DB::NAME,
                        wrong.join("\n  ")
                    );
                    *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
                }
            }
        });
    }
    while let Some(lane) = lanes.join_next().await {
        lane.expect("a lane ends");
    }
    let failure = failure.lock().unwrap_or_else(PoisonError::into_inner).take();
    assert!(failure.is_none(), "{}", failure.unwrap_or_default());
    assert_eq!(held.load(Ordering::Relaxed), count, "all schedules were run");
}

/// Looks into the database whenever a worker says that a message is finished, before the broker hears it.
struct Auditor<DB: Ground> {
    field: Arc<Field<DB>>,
    plan: Arc<Plan>,
}

impl<DB: Ground> Watch for Auditor<DB> {
    async fn settling(&self, message: &Message, verdict: Verdict) {
        let id = message.headers.text("event-id").ok().flatten().and_then(|id| MessageId::parse(id).ok());
        let id = id.expect("a message of the plan has an id").as_uuid();
        match verdict {
            Verdict::Retry { .. } => {}
            Verdict::DeadLettered => self.plan.wrong(format!("{id} was to be settled as a dead letter")),
            Verdict::Done => match self.field.committed(id).await {
                // What escaped is taken with its dead letter, for a person to look at, and is not run again.
                Ok((1, 1, _) | (1, 0, 1)) => {}
                Ok((inbox, applied, letters)) => {
                    self.plan.wrong(format!(
                        "{id} was to be acked with {inbox} rows in the inbox, {applied} effects and {letters} dead letters"
                    ));
                }
                Err(error) => self.plan.wrong(format!("{id} could not be looked up: {error}")),
            },
        }
    }
}

/// Runs one schedule; what was wrong.
async fn schedule<DB: Ground>(field: &Arc<Field<DB>>, seed: u64, number: u64) -> Vec<String> {
    let account = 1_000 + 4 * i64::try_from(number).expect("a small number");
    let plan = Arc::new(Plan::new(seed, account));
    field.open_accounts(account).await.expect("four accounts");
    let queue = Memory::with_faults(plan.faults.clone()).lease(plan.lease);
    for sent in &plan.sent {
        (0..sent.copies).for_each(|_| queue.publish(Plan::message(sent)));
    }
    let stop = CancellationToken::new();
    let mut workers = JoinSet::new();
    for worker in 0..WORKERS {
        workers.spawn(work(field.clone(), plan.clone(), queue.clone(), worker, stop.clone()));
    }
    let empty = async {
        while !queue.is_empty() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    if timeout(STUCK, empty).await.is_err() {
        plan.wrong(format!("stuck with {:?}", queue.counts()));
    }
    stop.cancel();
    let joined = async {
        while let Some(worker) = workers.join_next().await {
            if let Err(error) = worker {
                plan.wrong(format!("a worker died: {error}"));
            }
        }
    };
    if timeout(STUCK, joined).await.is_err() {
        plan.wrong("a worker did not stop".to_owned());
    }
    check(field, &plan, account).await;
    plan.take_wrong()
}

async fn work<DB: Ground>(field: Arc<Field<DB>>, plan: Arc<Plan>, queue: Memory, worker: usize, stop: CancellationToken) {
    let inbox = &field.inboxes[worker % field.inboxes.len()];
    let auditor = Arc::new(Auditor { field: field.clone(), plan: plan.clone() });
    while !stop.is_cancelled() {
        let dispatcher = Dispatcher::builder(inbox).only([DB::CONSUMER]).state(plan.clone()).state(field.side.clone()).build().await;
        let dispatcher = match dispatcher {
            Ok(dispatcher) => dispatcher,
            Err(error) => return plan.wrong(format!("no dispatcher: {error}")),
        };
        let broker = Watched::new(queue.clone(), auditor.clone(), field.nobody.clone());
        let runner = Runner::new(dispatcher, broker, Intake::new("hostile", IdFrom::header("event-id")).topics([TOPIC]));
        let runner = runner
            .workers(NonZeroU16::MIN.saturating_add(1))
            .prefetch(NonZeroU16::MIN.saturating_add(3))
            .retry(Duration::from_millis(1), Duration::from_millis(4));
        // Every other one waits for the disk with its acks only.
        let durability = if worker.is_multiple_of(2) { Durability::Commit } else { Durability::BeforeAck };
        match runner.durability(durability).stop_on(stop.clone()).run().await {
            Ok(()) => {}
            // As after a restart with a mended handler.
            Err(RunError::Halted { .. }) if !plan.escaped().is_empty() => {}
            Err(error) => return plan.wrong(format!("worker {worker} gave up: {error}")),
        }
    }
}

/// The end of a schedule: each message once, and nothing else.
async fn check<DB: Ground>(field: &Field<DB>, plan: &Plan, account: i64) {
    let ids: Vec<Uuid> = plan.sent.iter().map(|sent| sent.id).collect();
    let once: BTreeMap<Uuid, i64> = ids.iter().map(|id| (*id, 1)).collect();
    let Found { inbox, applied, escaped, other_dead_letters } = field.found(&ids).await.expect("the rows of the schedule");
    let count = |found: &BTreeMap<Uuid, i64>, id: &Uuid| found.get(id).copied().unwrap_or_default();
    let differ = |found: &BTreeMap<Uuid, i64>| -> Vec<(Uuid, i64)> {
        let counted = ids.iter().map(|id| (*id, count(found, id)));
        counted.filter(|(_, count)| *count != 1).collect()
    };
    let undone = |id: &Uuid| count(&escaped, id) == 1 && count(&applied, id) == 0;
    if inbox != once {
        plan.wrong(format!("not one row in the inbox: {:?}", differ(&inbox)));
    }
    let wrong: Vec<(Uuid, i64)> = differ(&applied).into_iter().filter(|(id, _)| !undone(id)).collect();
    if !wrong.is_empty() {
        plan.wrong(format!("not applied once: {wrong:?}"));
    }
    // One whose session was killed at that moment, or whose delivery was taken away, is not stored.
    let planned = plan.escaped();
    let stray: Vec<&Uuid> = escaped.keys().filter(|id| !planned.contains(id)).collect();
    if !stray.is_empty() {
        plan.wrong(format!("dead letters as escaped: {stray:?}"));
    }
    if !other_dead_letters.is_empty() {
        plan.wrong(format!("dead letters: {:?}", other_dead_letters.keys()));
    }
    let mut balances: BTreeMap<i64, i64> = (account..account + 4).map(|id| (id, 0)).collect();
    for sent in plan.sent.iter().filter(|sent| !undone(&sent.id)) {
        *balances.entry(sent.payment.account).or_default() += sent.payment.amount;
    }
    let found = field.balances(account).await.expect("the accounts");
    if found != balances {
        plan.wrong(format!("balances {found:?}, not {balances:?}"));
    }
}
