//! What only happens where the claim of a message travels with the commit of the one before it.

use std::{num::NonZeroU16, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use inbox_runtime::{Dispatcher, MessageId, Runner, State, broker::Memory, idempotent_consumer};
use inbox_tests::{
    database::{bare_postgres, postgres_pool, postgres_with},
    proxy::{Lose, Proxy},
};
use sqlx::{PgPool, Postgres, Transaction};

use super::support::*;

/// A body that is told which of the messages it was given.
type Nth = dyn for<'a, 'c> Fn(&'a mut Transaction<'c, Postgres>, usize) -> BoxFuture<'a, Ended> + Send + Sync;

#[derive(Clone)]
pub(super) struct Row {
    ids: Arc<Vec<MessageId>>,
    body: Arc<Nth>,
}

impl Row {
    fn body<F>(body: F) -> Arc<Nth>
    where
        F: for<'a, 'c> Fn(&'a mut Transaction<'c, Postgres>, usize) -> BoxFuture<'a, Ended> + Send + Sync + 'static,
    {
        Arc::new(body)
    }
}

#[idempotent_consumer(name = "row", topic = "orders")]
pub(super) async fn row(tx: &mut Transaction<'_, Postgres>, id: MessageId, State(row): State<Row>) -> Ended {
    let nth = row.ids.iter().position(|known| *known == id).expect("one of ours");
    note(tx, "row", id).await?;
    (row.body)(tx, nth).await
}

/// One worker, and all messages waiting from the start.
async fn in_a_row(
    pool: &PgPool,
    messages: usize,
    body: impl for<'a, 'c> Fn(&'a mut Transaction<'c, Postgres>, usize) -> BoxFuture<'a, Ended> + Send + Sync + 'static,
) -> (Vec<MessageId>, Memory, Running) {
    let ids: Vec<MessageId> = (0..messages).map(|_| new_id()).collect();
    let (broker, row) = (Memory::new(), Row { ids: Arc::new(ids.clone()), body: Row::body(body) });
    ids.iter().for_each(|id| broker.publish(order(*id, "{}")));
    let dispatcher = Dispatcher::builder(pool).only(["row"]).state(row).build().await.expect("a dispatcher");
    let running = serve_with(dispatcher, &broker, |runner| runner.workers(NonZeroU16::MIN).prefetch(NonZeroU16::MAX));
    (ids, broker, running)
}

fn serve_with(
    dispatcher: Dispatcher<Postgres>,
    broker: &Memory,
    settings: impl FnOnce(Runner<Postgres, Memory>) -> Runner<Postgres, Memory>,
) -> Running {
    Running::start(|stop| {
        let runner = Runner::new(dispatcher, broker.clone(), intake()).stop_on(stop);
        settings(runner.retry(Duration::from_millis(5), Duration::from_millis(50))).run()
    })
}

fn nothing<'a>(_tx: &'a mut Transaction<'_, Postgres>, _nth: usize) -> BoxFuture<'a, Ended> {
    Box::pin(async { Ok(()) })
}

async fn all_once(pool: &PgPool, ids: &[MessageId]) {
    for id in ids {
        assert_once(pool, "row", *id).await;
    }
}

async fn drained(broker: &Memory, running: Running) {
    running.drain(broker).await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_message_takes_two_trips_and_a_duplicate_one() {
    const MESSAGES: usize = 100;
    let direct = bare_postgres().await;
    let watcher = postgres_pool(direct.clone(), 2).await;
    let proxy = Proxy::to(&direct).await;
    let pool = postgres_pool(proxy.through(direct), 2).await;
    inbox_runtime::Inbox::new(&pool).migrate().await.unwrap();
    let (ids, broker, running) = in_a_row(&pool, MESSAGES, nothing).await;
    running.drain(&broker).await;
    let before = proxy.requests();
    ids.iter().for_each(|id| broker.publish(order(*id, "{}")));
    running.drain(&broker).await;
    let duplicates = proxy.requests() - before;
    running.stop().await.unwrap();
    all_once(&watcher, &ids).await;
    // Some wait for the disk, or begin a new run; none takes two.
    assert!(duplicates <= MESSAGES as u64 * 5 / 4, "{duplicates} trips for {MESSAGES} duplicates");
    let (before, (more, broker, running)) = (proxy.requests(), in_a_row(&pool, MESSAGES, nothing).await);
    drained(&broker, running).await;
    let trips = proxy.requests() - before;
    all_once(&watcher, &more).await;
    // A few belong to the start, the first preparation of the statement, and the end.
    assert!(trips <= MESSAGES as u64 * 2 + 30, "{trips} trips for {MESSAGES} messages");
}

/// A reset that stands before a BEGIN in the same string is undone with that transaction: of a duplicate, or of a body that fails.
#[tokio::test]
async fn what_a_body_leaves_does_not_come_back_with_a_rollback() {
    // Undone in passing; and such that has to be looked for.
    let role = format!("row_{}", new_id().as_uuid().simple());
    let settings = format!("SET ROLE {role}; SET work_mem = '123kB'; SELECT pg_advisory_lock(4711)");
    for left in [settings, "LISTEN a_channel; CREATE TEMP TABLE inbox (i int)".to_owned()] {
        let pool = postgres_with(3).await;
        run(&pool, &format!("CREATE ROLE {role}; GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}")).await;
        let failed = std::sync::atomic::AtomicBool::new(false);
        let ids: Vec<MessageId> = (0..5).map(|_| new_id()).collect();
        let body = Row::body(move |tx, nth| {
            let fails = nth == 3 && !failed.swap(true, std::sync::atomic::Ordering::SeqCst);
            let left = left.clone();
            Box::pin(async move {
                match nth {
                    0 => raw(tx, &left).await,
                    3 if fails => Err("as it happens".into()),
                    _ => {
                        let clean = "SELECT current_user = session_user AND current_setting('work_mem') <> '123kB' \
                                     AND NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()) \
                                     AND to_regclass('pg_temp.inbox') IS NULL AND NOT EXISTS (SELECT FROM pg_listening_channels())";
                        assert!(yes(&mut **tx, clean).await, "message {nth} met what message 0 left");
                        Ok(())
                    }
                }
            })
        });
        // The one behind it is a duplicate.
        let known = sqlx::query("INSERT INTO public.inbox (consumer_name, message_id) VALUES ('row', $1)");
        known.bind(ids[1].as_uuid()).execute(&pool).await.unwrap();
        let (broker, row) = (Memory::new(), Row { ids: Arc::new(ids.clone()), body });
        ids.iter().for_each(|id| broker.publish(order(*id, "{}")));
        let dispatcher = Dispatcher::builder(&pool).only(["row"]).state(row).build().await.expect("a dispatcher");
        drained(&broker, serve_with(dispatcher, &broker, |runner| runner.workers(NonZeroU16::MIN))).await;
        for nth in [0, 2, 3, 4] {
            assert_once(&pool, "row", ids[nth]).await;
        }
        assert_eq!(broker.counts().retried, 1, "{:?}", broker.counts());
        run(&pool, &format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
    }
}

/// What a body says of its own transaction goes on in one that is chained to it.
#[tokio::test]
async fn a_body_that_has_written_enough_does_not_keep_the_next_from_writing() {
    let pool = postgres_with(3).await;
    let (ids, broker, running) = in_a_row(&pool, 6, |tx, nth| {
        Box::pin(async move { if nth % 2 == 1 { raw(tx, "SET TRANSACTION READ ONLY").await } else { Ok(()) } })
    })
    .await;
    running.drain(&broker).await;
    running.stop().await.unwrap();
    all_once(&pool, &ids).await;
    assert_eq!(broker.counts().retried, 0, "{:?}", broker.counts());
}

#[tokio::test]
async fn statements_that_a_body_deallocates_are_not_missed_by_the_next() {
    let pool = postgres_with(3).await;
    let (ids, broker, running) = in_a_row(&pool, 6, |tx, nth| {
        Box::pin(async move { if nth % 2 == 1 { raw(tx, "DEALLOCATE ALL; PREPARE mine AS SELECT 1").await } else { Ok(()) } })
    })
    .await;
    running.drain(&broker).await;
    running.stop().await.unwrap();
    all_once(&pool, &ids).await;
}

/// The guard fails: nothing behind it in the string runs.
#[tokio::test]
async fn an_escape_takes_nobody_with_it() {
    for text in ["COMMIT", "ROLLBACK", "COMMIT; BEGIN", "ROLLBACK; BEGIN", "COMMIT AND CHAIN"] {
        let pool = postgres_with(3).await;
        let (ids, broker, running) =
            in_a_row(&pool, 3, move |tx, nth| Box::pin(async move { if nth == 1 { raw(tx, text).await } else { Ok(()) } })).await;
        let ended = running.end().await;
        assert!(matches!(ended, Err(inbox_runtime::RunError::Halted { .. })), "{text}: {ended:?}");
        assert_once(&pool, "row", ids[0]).await;
        assert_eq!(applied(&pool, "row", ids[2]).await, claimed(&pool, "row", ids[2]).await, "{text}");
        let letters = letters(&pool).await;
        assert_eq!(letters.len(), 1, "{text}: {letters:?}");
        assert_eq!((letters[0].message_id, letters[0].reason.as_str()), (Some(ids[1].as_uuid()), "transaction_escaped"), "{text}");
        assert!(broker.counts().done <= 2, "{text}: {:?}", broker.counts());
    }
}

#[idempotent_consumer(name = "replying", topic = "orders")]
pub(super) async fn replying(tx: &mut Transaction<'_, Postgres>, id: MessageId) -> Result<inbox_runtime::Reply<String>, Failure> {
    note(tx, "replying", id).await?;
    raw(tx, "COMMIT; BEGIN").await?;
    drop(raw(tx, "SELECT 1 / 0").await);
    Ok(inbox_runtime::Reply("half of it".to_owned()))
}

/// The reply cannot be recorded, which is no reason to roll back without having asked whose transaction it is.
#[tokio::test]
async fn an_escape_of_one_that_replies_is_one() {
    let (pool, id, broker) = (postgres_with(3).await, new_id(), Memory::new());
    broker.publish(order(id, "{}"));
    let dispatcher = Dispatcher::builder(&pool).only(["replying"]).build().await.unwrap();
    let ended = serve_with(dispatcher, &broker, |runner| runner.workers(NonZeroU16::MIN)).end().await;
    assert!(matches!(ended, Err(inbox_runtime::RunError::Halted { .. })), "{ended:?}");
    assert_eq!(broker.counts().done, 0, "half of its effect is no receipt");
    assert_eq!(letters(&pool).await.len(), 1);
}

/// Refused at the guard (a swallowed error) and at COMMIT (a deferred constraint), with another message waiting behind it.
#[tokio::test]
async fn what_is_refused_takes_nobody_with_it() {
    let pool = postgres_with(3).await;
    run(&pool, "CREATE TABLE parent (id int PRIMARY KEY)").await;
    run(&pool, "CREATE TABLE child (id int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)").await;
    let tries = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let (ids, broker, running) = in_a_row(&pool, 5, {
        let tries = Arc::clone(&tries);
        move |tx, nth| {
            let first = nth % 2 == 1 && tries.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < 2;
            Box::pin(async move {
                match nth {
                    1 if first => {
                        drop(raw(tx, "SELECT 1 / 0").await);
                        // The note that follows fails as well, and is the body's error; so it ends here.
                        Err("swallowed by the framework's caller".into())
                    }
                    3 if first => raw(tx, "INSERT INTO child VALUES (1)").await,
                    _ => Ok(()),
                }
            })
        }
    })
    .await;
    drained(&broker, running).await;
    all_once(&pool, &ids).await;
    assert_eq!(broker.counts().retried, 2, "{:?}", broker.counts());
    assert!(yes(&pool, "SELECT NOT EXISTS (SELECT FROM child)").await);
}

/// An error of the next claim says nothing about the commit before it.
#[tokio::test]
async fn a_message_is_applied_whatever_the_next_claim_meets() {
    let pool = postgres_with(4).await;
    let mut elsewhere = pool.begin().await.unwrap();
    let ids: Vec<MessageId> = (0..3).map(|_| new_id()).collect();
    let claim = sqlx::query("INSERT INTO public.inbox (consumer_name, message_id) VALUES ('row', $1)");
    claim.bind(ids[1].as_uuid()).execute(&mut *elsewhere).await.unwrap();
    let (broker, row) = (Memory::new(), Row { ids: Arc::new(ids.clone()), body: Row::body(nothing) });
    ids.iter().for_each(|id| broker.publish(order(*id, "{}")));
    let inbox = inbox_runtime::Inbox::builder(pool.clone()).claim_wait(Duration::from_millis(100)).build().unwrap();
    let dispatcher = Dispatcher::builder(&inbox).only(["row"]).state(row).build().await.unwrap();
    let running = serve_with(dispatcher, &broker, |runner| runner.workers(NonZeroU16::MIN));
    super::support::eventually(|| broker.counts().done == 2).await;
    assert_once(&pool, "row", ids[0]).await;
    assert_once(&pool, "row", ids[2]).await;
    elsewhere.rollback().await.unwrap();
    drained(&broker, running).await;
    all_once(&pool, &ids).await;
}

/// The answer to a string with a COMMIT in it is lost: the message is claimed again, and the next one is claimed anew.
#[tokio::test]
async fn b5_a_lost_answer_is_settled_for_the_one_and_repeated_for_the_other() {
    for how in [Lose::Reply, Lose::ReplySilently, Lose::Request] {
        let direct = bare_postgres().await;
        let watcher = postgres_pool(direct.clone(), 2).await;
        let proxy = Arc::new(Proxy::to(&direct).await);
        let pool = postgres_pool(proxy.through(direct), 3).await;
        let inbox = inbox_runtime::Inbox::builder(pool).step_timeout(Duration::from_millis(500)).build().unwrap();
        inbox.migrate().await.unwrap();
        let ids: Vec<MessageId> = (0..4).map(|_| new_id()).collect();
        let (broker, losing) = (Memory::new(), Arc::clone(&proxy));
        let once = std::sync::Once::new();
        let body = Row::body(move |_, nth| {
            if nth == 1 {
                once.call_once(|| losing.lose_next_commit(how));
            }
            Box::pin(async { Ok(()) })
        });
        let row = Row { ids: Arc::new(ids.clone()), body };
        ids.iter().for_each(|id| broker.publish(order(*id, "{}")));
        let dispatcher = Dispatcher::builder(&inbox).only(["row"]).state(row).build().await.unwrap();
        drained(&broker, serve_with(dispatcher, &broker, |runner| runner.workers(NonZeroU16::MIN))).await;
        assert_eq!(proxy.commits_lost(), 1, "{how:?}");
        let counts = broker.counts();
        assert_eq!((counts.deliveries, counts.done, counts.retried), (4, 4, 0), "{how:?}: {counts:?}");
        all_once(&watcher, &ids).await;
    }
}

/// A session that dies between two messages costs nothing but a new one.
#[tokio::test]
async fn a_worker_whose_session_is_killed_opens_another() {
    let pool = postgres_with(4).await;
    let ids: Vec<MessageId> = (0..2).map(|_| new_id()).collect();
    let (broker, row) = (Memory::new(), Row { ids: Arc::new(ids.clone()), body: Row::body(nothing) });
    let dispatcher = Dispatcher::builder(&pool).only(["row"]).state(row).build().await.unwrap();
    let running = serve_with(dispatcher, &broker, |runner| runner.workers(NonZeroU16::MIN));
    for id in &ids {
        broker.publish(order(*id, "{}"));
        running.drain(&broker).await;
        run(&pool, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
            .await;
    }
    running.stop().await.unwrap();
    all_once(&pool, &ids).await;
}

/// Between messages a session holds nothing open: it would keep vacuum from its work, and a standby's snapshot.
#[tokio::test]
async fn an_idle_worker_is_idle() {
    let pool = postgres_with(4).await;
    let (ids, broker, running) = in_a_row(&pool, 3, nothing).await;
    running.drain(&broker).await;
    broker.publish(order(ids[0], "{}"));
    running.drain(&broker).await;
    let idle = "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%')";
    until(&pool, idle).await;
    running.stop().await.unwrap();
    pool.close().await;
}

struct Explodes;

impl Drop for Explodes {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "a value of the body explodes when it is dropped");
    }
}

#[idempotent_consumer(name = "exploding", topic = "orders", timeout = "50ms")]
pub(super) async fn exploding(tx: &mut Transaction<'_, Postgres>, id: MessageId, State(Script(body)): State<Script>) -> Ended {
    body(tx, id).await?;
    Ok(note(tx, "exploding", id).await?)
}

/// Such a panic comes while the framework drops the body, not while it runs: it takes the worker's session with it, and nothing else.
#[tokio::test]
async fn a_panic_of_what_is_dropped_takes_one_session_and_no_message() {
    let pool = postgres_with(3).await;
    let first = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let body = script(move |_, _| {
        let explodes = first.swap(false, std::sync::atomic::Ordering::SeqCst);
        Box::pin(async move {
            if explodes {
                let _held = Explodes;
                std::future::pending::<()>().await;
            }
            Ok(())
        })
    });
    let ids: Vec<MessageId> = (0..3).map(|_| new_id()).collect();
    let broker = Memory::new();
    ids.iter().for_each(|id| broker.publish(order(*id, "{}")));
    let running = serve_with(dispatcher(&pool, body, &["exploding"]).await, &broker, |runner| runner.workers(NonZeroU16::MIN));
    drained(&broker, running).await;
    for id in &ids {
        assert_once(&pool, "exploding", *id).await;
    }
}

#[tokio::test]
async fn a_pool_that_closes_is_not_held_open_by_busy_workers() {
    let pool = postgres_with(4).await;
    let watcher = postgres_pool((*pool.connect_options()).clone(), 1).await;
    let (ids, broker, running) = in_a_row(&pool, 2_000, nothing).await;
    eventually(|| broker.counts().done > 100).await;
    tokio::time::timeout(Duration::from_secs(10), pool.close()).await.expect("the pool closes while messages wait");
    running.stop().await.unwrap();
    let applied: i64 = sqlx::query_scalar("SELECT count(*) FROM applied").fetch_one(&watcher).await.unwrap();
    let counts = broker.counts();
    assert!(u64::try_from(applied).unwrap() >= counts.done, "{applied} applied, {counts:?}");
    assert!(counts.done < ids.len() as u64, "it was busy when the pool was closed: {counts:?}");
}
