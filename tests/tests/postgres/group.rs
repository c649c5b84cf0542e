//! `group`: many messages in one transaction, each with the body as it is.

use std::{
    num::NonZeroU16,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use inbox_runtime::{Dispatcher, Durability, MessageId, Reply, RunError, Runner, State, broker::Memory, idempotent_consumer};
use inbox_tests::database::postgres_with;
use sqlx::{PgPool, Postgres, Transaction};

use super::support::*;

#[idempotent_consumer(name = "grouped", topic = "orders", group = 20)]
pub(super) async fn grouped(
    tx: &mut Transaction<'_, Postgres>,
    id: MessageId,
    State(Script(body)): State<Script>,
) -> Result<Reply<String>, Failure> {
    note(tx, "grouped", id).await?;
    body(tx, id).await?;
    Ok(Reply(id.to_string()))
}

fn ids(count: usize) -> Vec<MessageId> {
    (0..count).map(|_| new_id()).collect()
}

async fn serve_grouped(
    pool: &PgPool,
    broker: &Memory,
    body: State<Script>,
    settings: impl FnOnce(Runner<Postgres, Memory>) -> Runner<Postgres, Memory>,
) -> Running {
    let dispatcher = Dispatcher::builder(pool).only(["grouped"]).state(body.0).build().await.expect("a dispatcher");
    Running::start(|stop| {
        let runner = Runner::new(dispatcher, broker.clone(), intake()).stop_on(stop).workers(NonZeroU16::MIN);
        let runner = runner.prefetch(NonZeroU16::MIN.saturating_add(199)).retry(Duration::from_millis(5), Duration::from_millis(50));
        settings(runner).run()
    })
}

async fn publish(broker: &Memory, ids: &[MessageId]) {
    ids.iter().for_each(|id| broker.publish(order(*id, "{}")));
}

async fn handle(pool: &PgPool, ids: &[MessageId], body: State<Script>) -> Memory {
    let broker = Memory::new();
    publish(&broker, ids).await;
    let running = serve_grouped(pool, &broker, body, |runner| runner).await;
    running.drain(&broker).await;
    running.stop().await.unwrap();
    broker
}

async fn transactions(pool: &PgPool) -> i64 {
    sqlx::query_scalar("SELECT count(DISTINCT xmin::text) FROM applied").fetch_one(pool).await.unwrap()
}

fn fine() -> State<Script> {
    script(|_, _| Box::pin(async { Ok(()) }))
}

async fn all_once(pool: &PgPool, ids: &[MessageId]) {
    for id in ids {
        assert_once(pool, "grouped", *id).await;
    }
}

#[tokio::test]
async fn a_backlog_is_handled_in_few_transactions_and_each_message_has_its_reply() {
    for durability in [Durability::Commit, Durability::BeforeAck] {
        let (pool, ids, broker) = (postgres_with(4).await, ids(100), Memory::new());
        publish(&broker, &ids).await;
        let running = serve_grouped(&pool, &broker, fine(), |runner| runner.durability(durability)).await;
        running.drain(&broker).await;
        running.stop().await.unwrap();
        all_once(&pool, &ids).await;
        assert_eq!((broker.counts().deliveries, broker.counts().done), (100, 100));
        let transactions = transactions(&pool).await;
        assert!((5..=12).contains(&transactions), "{transactions} transactions for 100 messages");
        let replies = "SELECT count(*) = 100 FROM public.inbox WHERE reply #>> '{}' = message_id::text";
        assert!(yes(&pool, replies).await);
    }
}

#[tokio::test]
async fn a_lone_message_does_not_wait_for_others() {
    let (pool, id) = (postgres_with(4).await, new_id());
    let broker = handle(&pool, &[id], fine()).await;
    all_once(&pool, &[id]).await;
    assert_eq!(broker.counts().done, 1);
}

/// It stands alone in the end, and the others have not paid for it with a failure.
#[expect(clippy::mem_forget, reason = "that is a mistake that a body can make")]
#[tokio::test]
async fn a6_one_that_fails_is_set_apart_from_its_group() {
    for how in ["an error", "swallowed", "a panic", "nested", "deferred"] {
        let (pool, ids) = (postgres_with(4).await, ids(40));
        run(&pool, "CREATE TABLE parent (id int PRIMARY KEY)").await;
        run(&pool, "CREATE TABLE child (id int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)").await;
        let (bad, runs) = (ids[13], Arc::new(AtomicU32::new(0)));
        let (counted, mended) = (Arc::clone(&runs), Arc::new(AtomicU32::new(0)));
        let fixed = Arc::clone(&mended);
        let body = script(move |tx, id| {
            counted.fetch_add(1, Ordering::SeqCst);
            let fails = id == bad && fixed.load(Ordering::SeqCst) == 0;
            Box::pin(async move {
                match how {
                    _ if !fails => Ok(()),
                    "an error" => Err("as it happens".into()),
                    "swallowed" => {
                        drop(raw(tx, "SELECT 1 / 0").await);
                        Ok(())
                    }
                    "a panic" => panic!("as it happens"),
                    "nested" => {
                        std::mem::forget(sqlx::Acquire::begin(&mut *tx).await?);
                        Ok(())
                    }
                    _ => raw(tx, "INSERT INTO child VALUES (1)").await,
                }
            })
        });
        let broker = Memory::new();
        publish(&broker, &ids).await;
        let running = serve_grouped(&pool, &broker, body, |runner| runner).await;
        eventually(|| broker.counts().done == 39 && broker.counts().retried > 0).await;
        assert_untouched(&pool, "grouped", bad).await;
        mended.store(1, Ordering::SeqCst);
        running.drain(&broker).await;
        running.stop().await.unwrap();
        all_once(&pool, &ids).await;
        assert!(letters(&pool).await.is_empty(), "{how}");
        let runs = runs.load(Ordering::SeqCst);
        assert!(runs < 40 * 6, "{how}: {runs} bodies ran for 40 messages");
    }
}

#[tokio::test]
async fn duplicates_in_a_group_do_not_run() {
    let (pool, ids) = (postgres_with(4).await, ids(30));
    handle(&pool, &ids[..15], fine()).await;
    let broker = handle(&pool, &ids, fine()).await;
    all_once(&pool, &ids).await;
    assert_eq!(broker.counts().done, 30);
    let again = handle(&pool, &ids, fine()).await;
    all_once(&pool, &ids).await;
    assert_eq!((again.counts().done, again.counts().deliveries), (30, 30));
}

/// Which of them did it is not known: all that shared the transaction are set aside, and none is acked.
#[tokio::test]
async fn an_escape_sets_aside_what_shared_its_transaction() {
    let cases = ["COMMIT", "ROLLBACK", "COMMIT; BEGIN"].into_iter().flat_map(|text| [(text, false), (text, true)]);
    for (text, fails) in cases {
        let (pool, ids, broker) = (postgres_with(4).await, ids(10), Memory::new());
        let bad = ids[4];
        let body = script(move |tx, id| {
            Box::pin(async move {
                if id != bad {
                    return Ok(());
                }
                raw(tx, text).await?;
                // Found out before the others have run: their claims may be committed, and their effects are not there.
                if fails { Err("as it happens".into()) } else { Ok(()) }
            })
        });
        publish(&broker, &ids).await;
        let running = serve_grouped(&pool, &broker, body, |runner| runner).await;
        assert!(matches!(running.end().await, Err(RunError::Halted { .. })), "{text}");
        let letters = letters(&pool).await;
        assert!(letters.iter().all(|letter| letter.reason == "transaction_escaped"), "{text}: {letters:?}");
        assert!(letters.iter().any(|letter| letter.message_id == Some(bad.as_uuid())), "{text}: {letters:?}");
        // What is not set aside is as it was, or applied and acked.
        for id in &ids {
            let aside = letters.iter().any(|letter| letter.message_id == Some(id.as_uuid()));
            let (effects, rows) = (applied(&pool, "grouped", *id).await, claimed(&pool, "grouped", *id).await);
            assert!(aside || effects == rows, "{text}: {id} has {effects} effects and {rows} rows");
            assert!(effects <= 1, "{text}: {id} has {effects} effects");
        }
    }
}

/// Two that have the same messages, in any order.
#[tokio::test]
async fn two_with_the_same_messages_do_not_lock_each_other_out() {
    let (pool, mut ids) = (postgres_with(6).await, ids(200));
    let (one, two) = (Memory::new(), Memory::new());
    publish(&one, &ids).await;
    ids.reverse();
    publish(&two, &ids).await;
    // As in two processes: each has its own set of ids in flight.
    let other = inbox_runtime::Inbox::builder(pool.clone()).build().unwrap();
    let first = serve_grouped(&pool, &one, fine(), |runner| runner).await;
    let dispatcher = Dispatcher::builder(&other).only(["grouped"]).state(fine().0).build().await.unwrap();
    let second = Running::start(|stop| {
        let runner = Runner::new(dispatcher, two.clone(), intake()).stop_on(stop).workers(NonZeroU16::MIN);
        runner.prefetch(NonZeroU16::MIN.saturating_add(199)).retry(Duration::from_millis(5), Duration::from_millis(50)).run()
    });
    first.drain(&one).await;
    second.drain(&two).await;
    first.stop().await.unwrap();
    second.stop().await.unwrap();
    all_once(&pool, &ids).await;
    let deadlocks = "SELECT deadlocks = 0 FROM pg_stat_database WHERE datname = current_database()";
    assert!(yes(&pool, deadlocks).await);
}
