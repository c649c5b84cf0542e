//! Copies of one message at once, and one message for several consumers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use inbox_runtime::{FailureKind, Inbox, Outcome, ProcessError, State};
use inbox_tests::database::sqlite;
use tokio::sync::{Notify, Semaphore};

use super::support::*;

/// A body that says that it has begun and waits to be let go; then it ends as `ends` says.
struct Gate {
    begun: Arc<Notify>,
    go: Arc<Semaphore>,
    runs: Arc<AtomicU32>,
}

impl Gate {
    fn new(ends: fn(u32) -> Ended) -> (Self, State<Script>) {
        let gate = Self { begun: Arc::default(), go: Arc::new(Semaphore::new(0)), runs: Arc::default() };
        let (begun, go, runs) = (Arc::clone(&gate.begun), Arc::clone(&gate.go), Arc::clone(&gate.runs));
        let body = script(move |tx, id| {
            let (begun, go, run) = (Arc::clone(&begun), Arc::clone(&go), runs.fetch_add(1, Ordering::SeqCst));
            Box::pin(async move {
                note(tx, "billing", id).await?;
                begun.notify_one();
                go.acquire().await?.forget();
                ends(run)
            })
        });
        (gate, body)
    }

    fn runs(&self) -> u32 {
        self.runs.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn a3_two_copies_at_once_run_the_body_once() {
    let ((pool, _dir), id) = (sqlite().await, new_id());
    let (gate, body) = Gate::new(|_| Ok(()));
    let hasty = Inbox::builder(beside(&pool, Duration::ZERO).await).build().unwrap();
    hasty.verify().await.unwrap();
    let first = tokio::spawn(call(Inbox::new(&pool), id, body.clone()));
    bounded(gate.begun.notified()).await;

    // Another process that cannot wait: it is told to come again, and its body does not run.
    let refused = bounded(call(hasty, id, body.clone())).await.unwrap_err();
    assert_eq!(refused.kind(), FailureKind::Transient, "{refused:?}");
    // One that waits for the writer: it learns of the first only after its commit.
    let patient = Inbox::builder(beside(&pool, Duration::from_secs(30)).await).build().unwrap();
    let second = tokio::spawn(call(patient, id, body.clone()));

    assert_eq!(gate.runs(), 1);
    gate.go.add_permits(2);
    assert_eq!(bounded(first).await.unwrap().unwrap(), Outcome::Applied(()));
    assert_eq!(bounded(second).await.unwrap().unwrap(), Outcome::Duplicate(()));
    assert_eq!(gate.runs(), 1);
    assert_once(&pool, "billing", id).await;
}

#[tokio::test]
async fn a3_if_the_first_copy_rolls_back_the_second_runs() {
    let ((pool, _dir), id) = (sqlite().await, new_id());
    let (gate, body) = Gate::new(|run| if run == 0 { Err("no stock".into()) } else { Ok(()) });
    let first = tokio::spawn(call(Inbox::new(&pool), id, body.clone()));
    bounded(gate.begun.notified()).await;
    let other = Inbox::builder(beside(&pool, Duration::from_secs(30)).await).build().unwrap();
    let second = tokio::spawn(call(other, id, body.clone()));
    let third = tokio::spawn(call(Inbox::new(&pool), id, body));
    gate.go.add_permits(3);
    assert!(matches!(bounded(first).await.unwrap(), Err(ProcessError::Handler(_))));
    let (second, third) = (bounded(second).await.unwrap().unwrap(), bounded(third).await.unwrap().unwrap());
    assert!(second.is_applied() ^ third.is_applied(), "{second:?} {third:?}");
    assert_eq!(gate.runs(), 2);
    assert_once(&pool, "billing", id).await;
}

#[tokio::test]
async fn a_copy_in_the_same_process_waits_without_a_connection_and_not_for_ever() {
    let ((pool, _dir), id) = (sqlite().await, new_id());
    let inbox = Inbox::builder(pool.clone()).claim_wait(Duration::from_millis(20)).build().unwrap();
    let (gate, body) = Gate::new(|_| Ok(()));
    let first = tokio::spawn(call(inbox.clone(), id, body.clone()));
    bounded(gate.begun.notified()).await;
    let late = bounded(call(inbox.clone(), id, body.clone())).await.unwrap_err();
    assert!(matches!(late, ProcessError::InFlight), "the pool has one connection, and that is taken: {late:?}");
    assert_eq!(late.kind(), FailureKind::Transient);
    gate.go.add_permits(1);
    assert_eq!(bounded(first).await.unwrap().unwrap(), Outcome::Applied(()));
    assert_eq!(call(inbox, id, body).await.unwrap(), Outcome::Duplicate(()));
    assert_once(&pool, "billing", id).await;
}

#[tokio::test]
async fn a5_two_consumers_apply_one_message_each() {
    let ((pool, _dir), id) = (sqlite().await, new_id());
    assert_eq!(billing(&pool, id, id, noting()).await.unwrap(), Outcome::Applied(()));
    assert_eq!(shipping(&pool, id, id).await.unwrap(), Outcome::Applied(()));
    assert_eq!(billing(&pool, id, id, noting()).await.unwrap(), Outcome::Duplicate(()));
    assert_eq!(shipping(&pool, id, id).await.unwrap(), Outcome::Duplicate(()));
    assert_once(&pool, "billing", id).await;
    assert_once(&pool, "shipping", id).await;
    assert_eq!(number(&pool, "SELECT count(*) FROM inbox").await, 2);
}

/// Many writers on one file, each message given to all of them: what one sees as busy comes again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a3_many_pools_race_for_the_same_messages() {
    let (pool, _dir) = sqlite().await;
    let ids: Vec<_> = (0..20).map(|_| new_id()).collect();
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let inbox = Inbox::builder(beside(&pool, Duration::from_secs(30)).await).build().unwrap();
        let ids = ids.clone();
        tasks.push(tokio::spawn(async move {
            let mut applied = 0;
            for id in ids {
                applied += u32::from(call(inbox.clone(), id, noting()).await.expect("the writer is waited for").is_applied());
            }
            applied
        }));
    }
    let mut applied = 0;
    for task in tasks {
        applied += bounded(task).await.unwrap();
    }
    assert_eq!(applied, 20, "each message is applied by one of them");
    for id in ids {
        assert_once(&pool, "billing", id).await;
    }
}

mod renamed {
    use inbox_runtime::{Dispatcher, IdFrom, Intake, Message, MessageId, Mismatch, Runner, broker::Memory, idempotent_consumer};
    use inbox_tests::database::sqlite;
    use sqlx::{Sqlite, Transaction};
    use tokio_util::sync::CancellationToken;

    use super::super::support::{bounded, counts, new_id, note};

    #[idempotent_consumer(name = "settle.v1")]
    async fn before(tx: &mut Transaction<'_, Sqlite>, id: MessageId) -> Result<(), sqlx::Error> {
        note(tx, "settle", id).await
    }

    #[idempotent_consumer(name = "settle", aliases = ["settle.v1"])]
    async fn now(tx: &mut Transaction<'_, Sqlite>, id: MessageId) -> Result<(), sqlx::Error> {
        note(tx, "settle", id).await
    }

    /// What a claim under a free name has just inserted is not what was applied before.
    #[tokio::test]
    async fn f9_another_payload_is_noticed_under_a_former_name_too() {
        let ((pool, _dir), id) = (sqlite().await, new_id());
        for (consumer, payload, dead) in [("settle.v1", "10", 0), ("settle", "10", 0), ("settle", "99", 1)] {
            let (broker, stop) = (Memory::new(), CancellationToken::new());
            broker.publish(Message::new("orders", payload).with_header("id", id.to_string()));
            let dispatcher = Dispatcher::builder(&pool).only([consumer]).bind(consumer, ["orders"]).build().await.unwrap();
            let intake = Intake::new("orders", IdFrom::header("id")).mismatch(Mismatch::DeadLetter);
            let runner = tokio::spawn(Runner::new(dispatcher, broker.clone(), intake).stop_on(stop.clone()).run());
            bounded(async {
                while !broker.is_empty() {
                    tokio::time::sleep(std::time::Duration::from_millis(2)).await;
                }
            })
            .await;
            stop.cancel();
            bounded(runner).await.unwrap().unwrap();
            assert_eq!(broker.counts().dead_lettered, dead, "{consumer} with {payload}");
        }
        assert_eq!((counts(&pool, "settle.v1", id).await.1, counts(&pool, "settle", id).await), (1, (1, 0)));
    }
}
