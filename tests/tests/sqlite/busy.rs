//! B13: one writer. The lock is taken at BEGIN, and a writer that is busy is no fault of the message.

use std::{sync::Arc, time::Duration};

use inbox_runtime::{FailureKind, Inbox, Outcome, ProcessError, broker::Memory};
use inbox_tests::database::sqlite;
use tokio::sync::{Notify, Semaphore};

use super::support::*;

/// With a plain BEGIN the body's first write would have to upgrade a read that another writer has overtaken: SQLITE_BUSY at once,
/// whatever the patience.
#[tokio::test]
async fn b13_a_body_that_reads_first_is_not_overtaken() {
    let ((pool, _dir), id) = (sqlite().await, new_id());
    let other = beside(&pool, Duration::ZERO).await;
    let overtaking = other.clone();
    let body = script(move |tx, id| {
        let other = overtaking.clone();
        Box::pin(async move {
            let before = number(&mut **tx, "SELECT balance_cents FROM accounts WHERE id = 1").await;
            let refused = sqlx::query("UPDATE accounts SET balance_cents = 7 WHERE id = 1").execute(&other).await;
            let refused = refused.expect_err("the writer's place is taken since BEGIN");
            assert!(refused.to_string().contains("locked"), "{refused}");
            assert_eq!(before, 0);
            raw(tx, "UPDATE accounts SET balance_cents = balance_cents + 10 WHERE id = 1").await?;
            Ok(note(tx, "billing", id).await?)
        })
    });
    assert_eq!(billing(&pool, id, id, body).await.unwrap(), Outcome::Applied(()));
    assert_once(&pool, "billing", id).await;
    assert_eq!(number(&other, "SELECT balance_cents FROM accounts WHERE id = 1").await, 10);
}

#[tokio::test]
async fn b13_a_writer_elsewhere_is_waited_for_and_its_commit_is_seen() {
    let ((pool, _dir), id) = (sqlite().await, new_id());
    let other = beside(&pool, Duration::from_secs(30)).await;
    let mut writing = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
    run(&mut *writing, "UPDATE accounts SET balance_cents = 100 WHERE id = 1").await;
    let inbox = Inbox::builder(beside(&pool, Duration::from_secs(30)).await).build().unwrap();
    let body = script(|tx, id| {
        Box::pin(async move {
            note(tx, "billing", id).await?;
            assert_eq!(number(&mut **tx, "SELECT balance_cents FROM accounts WHERE id = 1").await, 100);
            raw(tx, "UPDATE accounts SET balance_cents = balance_cents + 10 WHERE id = 1").await
        })
    });
    let waiting = tokio::spawn(call(inbox, id, body));
    writing.commit().await.unwrap();
    assert_eq!(bounded(waiting).await.unwrap().unwrap(), Outcome::Applied(()));
    assert_once(&pool, "billing", id).await;
    assert_eq!(number(&pool, "SELECT balance_cents FROM accounts WHERE id = 1").await, 110);
}

#[tokio::test]
async fn b13_busy_is_transient_and_leaves_the_connection_usable() {
    let ((pool, _dir), id) = (sqlite().await, new_id());
    let hasty = beside(&pool, Duration::ZERO).await;
    let inbox = Inbox::builder(hasty.clone()).build().unwrap();
    inbox.verify().await.unwrap();
    let writing = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    for _ in 0..3 {
        let busy = call(inbox.clone(), id, noting()).await.unwrap_err();
        assert!(matches!(busy, ProcessError::Database(_)), "{busy:?}");
        assert_eq!(busy.kind(), FailureKind::Transient);
    }
    assert_eq!(hasty.size(), 1);
    writing.rollback().await.unwrap();
    assert_eq!(call(inbox, id, noting()).await.unwrap(), Outcome::Applied(()));
    assert_once(&pool, "billing", id).await;
}

/// Two processes on one file; one of them has a slow body. The message of the other is late, not poison.
#[tokio::test]
async fn b13_a_slow_handler_delays_the_messages_of_others_and_poisons_none() {
    let ((pool, _dir), slow_id, id) = (sqlite().await, new_id(), new_id());
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
    let slow = {
        let (begun, go) = (Arc::clone(&begun), Arc::clone(&go));
        script(move |tx, id| {
            let (begun, go) = (Arc::clone(&begun), Arc::clone(&go));
            Box::pin(async move {
                begun.notify_one();
                go.acquire().await?.forget();
                Ok(note(tx, "billing", id).await?)
            })
        })
    };
    let hasty = beside(&pool, Duration::ZERO).await;
    let broker = Memory::new();
    let other = dispatcher(&hasty, noting(), &["billing"]).await;
    let first = tokio::spawn(call(Inbox::new(&pool), slow_id, slow));
    bounded(begun.notified()).await;
    broker.publish(order(id));
    let running = serve(other, &broker);
    bounded(async {
        while broker.counts().retried < 3 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    go.add_permits(1);
    assert_eq!(bounded(first).await.unwrap().unwrap(), Outcome::Applied(()));
    running.drain(&broker).await;
    running.stop().await.unwrap();
    let counts = broker.counts();
    assert_eq!((counts.done, counts.dead_lettered), (1, 0), "{counts:?}");
    assert_eq!(letters(&pool).await, []);
    assert_once(&pool, "billing", slow_id).await;
    assert_once(&pool, "billing", id).await;
}
