//! `group` and `batch`: many messages in one transaction, and one flush for all of them; on a pool of one connection, for which all take turns.

use std::{
    num::NonZeroU16,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU32, Ordering},
    },
    time::Duration,
};

use inbox_runtime::{Dispatcher, Message, MessageId, Outcome, Reply, RunError, State, broker::Memory, idempotent_consumer};
use inbox_tests::database::sqlite;
use sqlx::{Sqlite, SqlitePool, Transaction};

use super::support::*;

#[idempotent_consumer(name = "grouped", topic = "orders", group = 20)]
async fn grouped(tx: &mut Transaction<'_, Sqlite>, id: MessageId, State(Script(body)): State<Script>) -> Result<Reply<String>, Failure> {
    note(tx, "grouped", id).await?;
    body(tx, id).await?;
    Ok(Reply(id.to_string()))
}

#[idempotent_consumer(name = "batched", topic = "batches", batch = 20)]
async fn batched(
    tx: &mut Transaction<'_, Sqlite>,
    ids: Vec<MessageId>,
    State(Script(body)): State<Script>,
) -> Result<Vec<Reply<String>>, Failure> {
    for id in &ids {
        note(tx, "batched", *id).await?;
        body(tx, *id).await?;
    }
    Ok(ids.iter().map(|id| Reply(id.to_string())).collect())
}

/// Each with its topic.
const KINDS: [(&str, &str); 2] = [("grouped", "orders"), ("batched", "batches")];

fn fine() -> State<Script> {
    script(|_, _| Box::pin(async { Ok(()) }))
}

fn ids(count: usize) -> Vec<MessageId> {
    (0..count).map(|_| new_id()).collect()
}

fn published(ids: &[MessageId], topic: &str) -> Memory {
    let broker = Memory::new();
    ids.iter().for_each(|id| broker.publish(Message::new(topic, "{}").with_header("id", id.to_string())));
    broker
}

async fn serve_many(pool: &SqlitePool, broker: &Memory, body: State<Script>) -> Running {
    let dispatcher = Dispatcher::builder(pool).only(["grouped", "batched"]).state(body.0).build().await.expect("a dispatcher");
    serve_with(dispatcher, broker, |runner| runner)
}

/// How many effects at most stood in one transaction: those that somebody else does not see yet.
fn unseen_by(other: &SqlitePool) -> (Arc<AtomicI64>, State<Script>) {
    let (most, other) = (Arc::new(AtomicI64::new(0)), other.clone());
    let seen = Arc::clone(&most);
    let body = script(move |tx, _| {
        let (most, other) = (Arc::clone(&seen), other.clone());
        Box::pin(async move {
            let count = "SELECT count(*) FROM applied";
            most.fetch_max(number(&mut **tx, count).await - number(&other, count).await, Ordering::SeqCst);
            Ok(())
        })
    });
    (most, body)
}

/// The worker is in the midst of it.
async fn done(broker: &Memory, messages: u64) {
    bounded(async {
        while broker.counts().done < messages {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_backlog_is_handled_in_few_transactions_and_each_message_has_its_reply() {
    for (consumer, topic) in KINDS {
        let ((pool, _dir), ids) = (sqlite().await, ids(100));
        let (most, body) = unseen_by(&beside(&pool, Duration::from_secs(5)).await);
        let broker = published(&ids, topic);
        let running = serve_many(&pool, &broker, body).await;
        running.drain(&broker).await;
        running.stop().await.unwrap();
        for id in &ids {
            assert_once(&pool, consumer, *id).await;
        }
        assert_eq!((broker.counts().deliveries, broker.counts().done), (100, 100), "{consumer}");
        assert_eq!(most.load(Ordering::SeqCst), 20, "{consumer}: effects in one transaction");
        let replies = "SELECT count(*) FROM main.inbox WHERE replace(reply, '-', '') = '\"' || lower(hex(message_id)) || '\"'";
        assert_eq!(number(&pool, replies).await, 100, "{consumer}");
    }
}

#[tokio::test]
async fn duplicates_among_them_do_not_run() {
    for (consumer, topic) in KINDS {
        let ((pool, _dir), ids) = (sqlite().await, ids(60));
        for some in [&ids[..25], &ids, &ids] {
            let broker = published(some, topic);
            let running = serve_many(&pool, &broker, fine()).await;
            running.drain(&broker).await;
            running.stop().await.unwrap();
            assert_eq!(broker.counts().done, some.len() as u64);
        }
        for id in &ids {
            assert_once(&pool, consumer, *id).await;
        }
    }
}

/// It stands alone in the end, and the others are applied.
#[expect(clippy::mem_forget, reason = "that is a mistake that a body can make")]
#[tokio::test]
async fn a6_one_that_fails_is_set_apart_from_the_others() {
    for ((consumer, topic), how) in KINDS.into_iter().flat_map(|kind| ["an error", "a panic", "nested", "deferred"].map(|how| (kind, how)))
    {
        let ((pool, _dir), ids) = (sqlite().await, ids(40));
        run(&pool, "CREATE TABLE parent (id int PRIMARY KEY)").await;
        run(&pool, "CREATE TABLE child (id int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)").await;
        let (bad, mended) = (ids[13], Arc::new(AtomicU32::new(0)));
        let fixed = Arc::clone(&mended);
        let body = script(move |tx, id| {
            let fails = id == bad && fixed.load(Ordering::SeqCst) == 0;
            Box::pin(async move {
                match how {
                    _ if !fails => Ok(()),
                    "an error" => Err("as it happens".into()),
                    "a panic" => panic!("as it happens"),
                    "nested" => {
                        std::mem::forget(sqlx::Acquire::begin(&mut *tx).await?);
                        Ok(())
                    }
                    _ => raw(tx, "INSERT INTO child VALUES (1)").await,
                }
            })
        });
        let broker = published(&ids, topic);
        let running = serve_many(&pool, &broker, body).await;
        bounded(async {
            while broker.counts().done < 39 || broker.counts().retried == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        assert_untouched(&pool, consumer, bad).await;
        mended.store(1, Ordering::SeqCst);
        running.drain(&broker).await;
        running.stop().await.unwrap();
        for id in &ids {
            assert_once(&pool, consumer, *id).await;
        }
        assert_eq!(letters(&pool).await, [], "{how}");
    }
}

/// Which of them did it is not known: all that shared the transaction are set aside, and none of those is acked.
#[tokio::test]
async fn an_escape_sets_aside_what_shared_its_transaction() {
    let cases = ["COMMIT", "ROLLBACK", "COMMIT; BEGIN", "ROLLBACK; BEGIN IMMEDIATE", "END; SAVEPOINT inbox_guard"];
    for ((consumer, topic), text, fails) in
        KINDS.into_iter().flat_map(|kind| cases.into_iter().flat_map(move |text| [false, true].map(|fails| (kind, text, fails))))
    {
        if text == "ROLLBACK" && fails {
            // Nothing of it is applied: a failure as any other.
            continue;
        }
        let ((pool, _dir), ids) = (sqlite().await, ids(10));
        let bad = ids[4];
        let body = script(move |tx, id| {
            Box::pin(async move {
                if id != bad {
                    return Ok(());
                }
                raw(tx, text).await?;
                if fails { Err("as it happens".into()) } else { Ok(()) }
            })
        });
        let broker = published(&ids, topic);
        let ended = serve_many(&pool, &broker, body).await.end().await;
        assert!(matches!(ended, Err(RunError::Halted { .. })), "{consumer}, {text}, {fails}: {ended:?}");
        let letters = letters(&pool).await;
        assert!(letters.iter().all(|(reason, ..)| reason == "transaction_escaped"), "{text}: {letters:?}");
        assert!(letters.iter().any(|(.., id)| *id == Some(bad.as_uuid())), "{text}: {letters:?}");
        for id in &ids {
            let aside = letters.iter().any(|(.., letter)| *letter == Some(id.as_uuid()));
            let (effects, rows) = counts(&pool, consumer, *id).await;
            assert!(aside || effects == rows, "{text}: {id} has {effects} effects and {rows} rows");
            assert!(effects <= 1, "{text}: {id} has {effects} effects");
        }
    }
}

/// The worker has the only connection, and a backlog; a dead letter and a direct call need it too.
#[tokio::test]
async fn all_take_turns_for_the_only_connection() {
    let ((pool, _dir), good) = (sqlite().await, ids(600));
    let broker = published(&good, "orders");
    (0..3).for_each(|_| broker.publish(Message::new("orders", "{}").with_header("id", "not an id")));
    let slow = script(|_, _| {
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok(())
        })
    });
    let dispatcher = dispatcher(&pool, slow, &["grouped"]).await;
    let running = serve_with(dispatcher, &broker, |runner| runner.prefetch(NonZeroU16::MAX));
    done(&broker, 40).await;
    let id = new_id();
    let called = bounded(billing(&pool, id, id, noting())).await.unwrap();
    assert_eq!(called, Outcome::Applied(()));
    assert!(!broker.is_empty(), "the backlog was still there");
    bounded(running.drain(&broker)).await;
    running.stop().await.unwrap();
    let letters = letters(&pool).await;
    assert!(!letters.is_empty() && letters.iter().all(|(reason, ..)| reason == "no_id"), "{letters:?}");
    for id in &good {
        assert_once(&pool, "grouped", *id).await;
    }
}

/// It is given back before the pool is closed, and what was not begun comes again.
#[tokio::test]
async fn a_pool_that_closes_gets_its_only_connection_back() {
    let ((pool, _dir), ids) = (sqlite().await, ids(2_000));
    let broker = published(&ids, "orders");
    let running = serve_many(&pool, &broker, fine()).await;
    done(&broker, 100).await;
    bounded(pool.close()).await;
    bounded(running.stop()).await.unwrap();
    assert!(broker.counts().done < 2_000, "it closed in the midst of it");
}
