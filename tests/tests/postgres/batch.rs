//! `batch`: one body for many messages.

use std::{
    num::NonZeroU16,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use inbox_runtime::{
    Dispatcher, Durability, Json, MessageId, Outcome, ProcessError, Reply, RunError, Runner, State, broker::Memory, idempotent_consumer,
};
use inbox_tests::database::postgres_with;
use sqlx::{PgPool, Postgres, Transaction};

use super::support::*;

type Body = dyn for<'a, 'c> Fn(&'a mut Transaction<'c, Postgres>, Vec<MessageId>) -> BoxFuture<'a, Ended> + Send + Sync;

/// What a body of a batch does after it has written its ledger.
#[derive(Clone)]
struct Many(Arc<Body>);

fn many<F>(body: F) -> Many
where
    F: for<'a, 'c> Fn(&'a mut Transaction<'c, Postgres>, Vec<MessageId>) -> BoxFuture<'a, Ended> + Send + Sync + 'static,
{
    Many(Arc::new(body))
}

fn fine() -> Many {
    many(|_, _| Box::pin(async { Ok(()) }))
}

#[derive(serde::Deserialize)]
struct Numbered {
    number: i64,
}

#[idempotent_consumer(name = "batched", topic = "orders", batch = 50)]
async fn batched(
    tx: &mut Transaction<'_, Postgres>,
    ids: Vec<MessageId>,
    orders: Vec<Json<Numbered>>,
    State(Many(body)): State<Many>,
) -> Result<Vec<Reply<i64>>, Failure> {
    let texts: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let insert = sqlx::query("INSERT INTO applied (consumer, message_id) SELECT 'batched', unnest($1::text[])");
    insert.bind(texts).execute(&mut **tx).await?;
    body(tx, ids).await?;
    Ok(orders.into_iter().map(|Json(order)| Reply(order.number)).collect())
}

#[idempotent_consumer(name = "lingering", topic = "slow", batch = 50, linger = "400ms")]
async fn lingering(tx: &mut Transaction<'_, Postgres>, ids: Vec<MessageId>, State(Many(body)): State<Many>) -> Result<(), Failure> {
    body(tx, ids).await
}

#[idempotent_consumer(name = "renamed", aliases = ["batched"], topic = "orders", batch = 50)]
async fn renamed(tx: &mut Transaction<'_, Postgres>, ids: Vec<MessageId>) -> Result<(), sqlx::Error> {
    let texts: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let insert = sqlx::query("INSERT INTO applied (consumer, message_id) SELECT 'renamed', unnest($1::text[])");
    insert.bind(texts).execute(&mut **tx).await.map(drop)
}

fn ids(count: usize) -> Vec<MessageId> {
    (0..count).map(|_| new_id()).collect()
}

fn publish(broker: &Memory, ids: &[MessageId]) {
    for (number, id) in ids.iter().enumerate() {
        broker.publish(inbox_runtime::Message::new("orders", format!("{{\"number\":{number}}}")).with_header("id", id.to_string()));
    }
}

async fn serve_batches(
    pool: &PgPool,
    broker: &Memory,
    body: Many,
    settings: impl FnOnce(Runner<Postgres, Memory>) -> Runner<Postgres, Memory>,
) -> Running {
    let dispatcher = Dispatcher::builder(pool).only(["batched"]).state(body).build().await.expect("a dispatcher");
    Running::start(|stop| {
        let runner = Runner::new(dispatcher, broker.clone(), intake()).stop_on(stop).workers(NonZeroU16::MIN);
        settings(runner.retry(Duration::from_millis(5), Duration::from_millis(50))).run()
    })
}

async fn handle(pool: &PgPool, ids: &[MessageId], body: Many) -> Memory {
    let broker = Memory::new();
    publish(&broker, ids);
    let running = serve_batches(pool, &broker, body, |runner| runner).await;
    running.drain(&broker).await;
    running.stop().await.unwrap();
    broker
}

async fn all_once(pool: &PgPool, ids: &[MessageId]) {
    for id in ids {
        assert_once(pool, "batched", *id).await;
    }
}

/// What each run of a body was given.
type Seen = Arc<Mutex<Vec<Vec<MessageId>>>>;

fn watching(seen: &Seen) -> Many {
    let seen = Arc::clone(seen);
    many(move |_, ids| {
        seen.lock().unwrap().push(ids);
        Box::pin(async { Ok(()) })
    })
}

#[tokio::test]
async fn a_backlog_is_handled_in_delivery_order_with_a_reply_for_each() {
    for durability in [Durability::Commit, Durability::BeforeAck] {
        let (pool, ids, broker, seen) = (postgres_with(4).await, ids(200), Memory::new(), Seen::default());
        publish(&broker, &ids);
        let running = serve_batches(&pool, &broker, watching(&seen), |runner| runner.durability(durability)).await;
        running.drain(&broker).await;
        running.stop().await.unwrap();
        all_once(&pool, &ids).await;
        assert_eq!((broker.counts().deliveries, broker.counts().done), (200, 200));
        let seen = seen.lock().unwrap().clone();
        assert_eq!(seen.concat(), ids, "delivery order");
        assert!(seen.len() <= 12, "{} runs for 200 messages", seen.len());
        let ids: Vec<_> = ids.iter().map(MessageId::as_uuid).collect();
        let replies = "SELECT count(*) FROM unnest($1::uuid[]) WITH ORDINALITY AS m (id, n) JOIN public.inbox ON message_id = id \
                       WHERE (reply #>> '{}')::bigint = n - 1";
        let replies: i64 = sqlx::query_scalar(replies).bind(ids).fetch_one(&pool).await.unwrap();
        assert_eq!(replies, 200);
    }
}

#[tokio::test]
async fn the_body_sees_only_what_is_fresh() {
    let (pool, all, seen) = (postgres_with(4).await, ids(60), Seen::default());
    let known: Vec<MessageId> = all.iter().copied().step_by(2).collect();
    handle(&pool, &known, fine()).await;
    let broker = handle(&pool, &all, watching(&seen)).await;
    all_once(&pool, &all).await;
    assert_eq!(broker.counts().done, 60);
    let fresh: Vec<MessageId> = all.iter().copied().skip(1).step_by(2).collect();
    assert_eq!(seen.lock().unwrap().concat(), fresh);
    let again = handle(&pool, &all, watching(&seen)).await;
    assert_eq!((again.counts().done, seen.lock().unwrap().concat().len()), (60, 30));
    all_once(&pool, &all).await;
}

/// Whatever its way to fail, it stands alone in the end, and the others are applied.
#[expect(clippy::mem_forget, reason = "that is a mistake that a body can make")]
#[tokio::test]
async fn a6_a_batch_that_fails_is_split_until_the_one_that_fails_stands_alone() {
    for how in ["an error", "swallowed", "a panic", "nested", "deferred"] {
        let (pool, ids) = (postgres_with(4).await, ids(40));
        run(&pool, "CREATE TABLE parent (id int PRIMARY KEY)").await;
        run(&pool, "CREATE TABLE child (id int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)").await;
        let (bad, runs, mended) = (ids[13], Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counted, fixed) = (Arc::clone(&runs), Arc::clone(&mended));
        let body = many(move |tx, ids| {
            counted.fetch_add(1, Ordering::SeqCst);
            let fails = ids.contains(&bad) && fixed.load(Ordering::SeqCst) == 0;
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
        publish(&broker, &ids);
        let running = serve_batches(&pool, &broker, body, |runner| runner).await;
        eventually(|| broker.counts().done == 39 && broker.counts().retried > 0).await;
        assert_untouched(&pool, "batched", bad).await;
        mended.store(1, Ordering::SeqCst);
        running.drain(&broker).await;
        running.stop().await.unwrap();
        all_once(&pool, &ids).await;
        assert!(letters(&pool).await.is_empty(), "{how}");
        let runs = runs.load(Ordering::SeqCst);
        assert!(runs < 60, "{how}: {runs} runs for 40 messages");
    }
}

/// They cannot be read: they are set aside at once, and nobody splits anything.
#[tokio::test]
async fn messages_that_cannot_be_read_are_set_aside_and_the_others_applied() {
    let (pool, ids, broker, seen) = (postgres_with(4).await, ids(40), Memory::new(), Seen::default());
    let bad = [ids[0], ids[17], ids[39]];
    for id in &ids {
        broker.publish(order(*id, if bad.contains(id) { "no JSON" } else { "{\"number\":1}" }));
    }
    let running = serve_batches(&pool, &broker, watching(&seen), |runner| runner).await;
    running.drain(&broker).await;
    running.stop().await.unwrap();
    let letters = letters(&pool).await;
    assert!(letters.iter().all(|letter| letter.reason == "rejected"), "{letters:?}");
    let aside: Vec<_> = letters.iter().filter_map(|letter| letter.message_id).collect();
    assert_eq!(aside.len(), 3);
    assert!(bad.iter().all(|id| aside.contains(&id.as_uuid())), "{letters:?}");
    for id in &ids {
        if bad.contains(id) {
            assert_untouched(&pool, "batched", *id).await;
        } else {
            assert_once(&pool, "batched", *id).await;
        }
    }
    assert_eq!(seen.lock().unwrap().concat().len(), 37, "no body ran twice");
}

#[tokio::test]
async fn an_escape_sets_aside_the_whole_batch() {
    for (text, fails) in [("COMMIT", false), ("COMMIT", true), ("ROLLBACK", false), ("COMMIT; BEGIN", true)] {
        let (pool, ids, broker) = (postgres_with(4).await, ids(10), Memory::new());
        let body = many(move |tx, _| {
            Box::pin(async move {
                raw(tx, text).await?;
                if fails { Err("as it happens".into()) } else { Ok(()) }
            })
        });
        publish(&broker, &ids);
        let running = serve_batches(&pool, &broker, body, |runner| runner).await;
        assert!(matches!(running.end().await, Err(RunError::Halted { .. })), "{text}");
        assert_eq!(broker.counts().done, 0, "{text}: acked");
        let letters = letters(&pool).await;
        assert!(!letters.is_empty() && letters.iter().all(|letter| letter.reason == "transaction_escaped"), "{text}: {letters:?}");
        for id in &ids {
            let aside = letters.iter().any(|letter| letter.message_id == Some(id.as_uuid()));
            assert!(aside || applied(&pool, "batched", *id).await == claimed(&pool, "batched", *id).await, "{text}: {id}");
        }
    }
}

/// Two that have the same messages, in any order.
#[tokio::test]
async fn two_with_the_same_messages_do_not_lock_each_other_out() {
    let (pool, mut ids) = (postgres_with(6).await, ids(400));
    let (one, two) = (Memory::new(), Memory::new());
    publish(&one, &ids);
    ids.reverse();
    publish(&two, &ids);
    // As in two processes: each has its own set of ids in flight.
    let other = inbox_runtime::Inbox::builder(pool.clone()).build().unwrap();
    let first = serve_batches(&pool, &one, fine(), |runner| runner).await;
    let dispatcher = Dispatcher::builder(&other).only(["batched"]).state(fine()).build().await.unwrap();
    let second = Running::start(|stop| {
        let runner = Runner::new(dispatcher, two.clone(), intake()).stop_on(stop).workers(NonZeroU16::MIN);
        runner.retry(Duration::from_millis(5), Duration::from_millis(50)).run()
    });
    first.drain(&one).await;
    second.drain(&two).await;
    first.stop().await.unwrap();
    second.stop().await.unwrap();
    all_once(&pool, &ids).await;
    let deadlocks = "SELECT deadlocks = 0 FROM pg_stat_database WHERE datname = current_database()";
    assert!(yes(&pool, deadlocks).await);
}

/// A lone message is handled once its time is over, and those that come meanwhile with it.
#[tokio::test]
async fn a_batch_fills_for_as_long_as_it_may() {
    let (pool, broker, seen) = (postgres_with(4).await, Memory::new(), Seen::default());
    let dispatcher = Dispatcher::builder(&pool).only(["lingering"]).state(watching(&seen)).build().await.unwrap();
    let running = Running::start(|stop| Runner::new(dispatcher, broker.clone(), intake()).stop_on(stop).workers(NonZeroU16::MIN).run());
    let (begun, ids) = (Instant::now(), ids(5));
    for id in &ids {
        broker.publish(inbox_runtime::Message::new("slow", "{}").with_header("id", id.to_string()));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    running.drain(&broker).await;
    assert!(begun.elapsed() >= Duration::from_millis(400), "the first waited for others");
    running.stop().await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [ids]);
}

/// Some were applied under the old name; a batch claims every name of every message.
#[tokio::test]
async fn a_batch_honours_the_names_it_had_before() {
    let (pool, all) = (postgres_with(4).await, ids(60));
    let old: Vec<MessageId> = all.iter().copied().step_by(3).collect();
    handle(&pool, &old, fine()).await;
    let broker = Memory::new();
    publish(&broker, &all);
    let dispatcher = Dispatcher::builder(&pool).only(["renamed"]).build().await.unwrap();
    let running = Running::start(|stop| Runner::new(dispatcher, broker.clone(), intake()).stop_on(stop).workers(NonZeroU16::MIN).run());
    running.drain(&broker).await;
    running.stop().await.unwrap();
    let transactions = "SELECT count(DISTINCT xmin::text) < 10 FROM applied WHERE consumer = 'renamed'";
    assert!(yes(&pool, transactions).await, "they share transactions");
    for id in &all {
        let counts = (applied(&pool, "batched", *id).await, applied(&pool, "renamed", *id).await);
        assert_eq!(counts, if old.contains(id) { (1, 0) } else { (0, 1) }, "{id}");
    }
}

#[tokio::test]
async fn a_direct_call_is_a_batch_of_one() {
    let (pool, id) = (postgres_with(4).await, new_id());
    let call = || batched(&pool, id, id, Json(Numbered { number: 7 }), State(fine()));
    assert_eq!(call().await.unwrap(), Outcome::Applied(7));
    assert_eq!(call().await.unwrap(), Outcome::Duplicate(7));
    assert_once(&pool, "batched", id).await;
    let bad = new_id();
    let fails = State(many(|_, _| Box::pin(async { Err("as it happens".into()) })));
    assert!(matches!(batched(&pool, bad, bad, Json(Numbered { number: 7 }), fails).await, Err(ProcessError::Handler(_))));
    assert_untouched(&pool, "batched", bad).await;
}
