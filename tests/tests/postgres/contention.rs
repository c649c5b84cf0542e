//! B9, B11: stricter isolation, and pools that are nearly empty.

use std::{sync::Arc, time::Duration};

use inbox_runtime::{Inbox, MessageId, Outcome, State, broker::Memory, idempotent_consumer};
use inbox_tests::database::{bare_postgres, postgres_pool, postgres_with};
use sqlx::{PgConnection, Postgres, Transaction};
use tokio::sync::{Barrier, Notify};

use super::support::*;

/// Both transactions have their snapshot before either commits: the stricter levels then refuse the loser.
async fn loser_is_a_duplicate(default: &str) {
    let pool = postgres_pool(bare_postgres().await.options([("default_transaction_isolation", default)]), 4).await;
    let inboxes = [Inbox::new(&pool), Inbox::builder(pool.clone()).build().unwrap()];
    inboxes[0].migrate().await.unwrap();
    let (id, at, gate) = (new_id(), Arc::new(Notify::new()), Arc::new(Notify::new()));
    let body = {
        let (at, gate, level) = (Arc::clone(&at), Arc::clone(&gate), default.to_owned());
        script(move |tx, id| {
            let (at, gate, level) = (Arc::clone(&at), Arc::clone(&gate), level.clone());
            Box::pin(async move {
                let found: String = sqlx::query_scalar("SHOW transaction_isolation").fetch_one(&mut **tx).await?;
                assert_eq!(found, level);
                note(tx, "billing", id).await?;
                at.notify_one();
                gate.notified().await;
                Ok(())
            })
        })
    };
    let calls = inboxes.map(|inbox| {
        let body = body.clone();
        tokio::spawn(async move { billing(&inbox, id, id, body).await })
    });
    at.notified().await;
    until(&pool, WAITING).await;
    gate.notify_one();
    let mut applied = 0;
    for call in calls {
        applied += i32::from(call.await.unwrap().expect("no conflict reaches the caller").is_applied());
    }
    assert_eq!(applied, 1);
    assert_once(&pool, "billing", id).await;
}

#[tokio::test]
async fn b9_two_copies_under_repeatable_read_end_as_applied_and_duplicate() {
    loser_is_a_duplicate("repeatable read").await;
}

#[tokio::test]
async fn b9_two_copies_under_serializable_end_as_applied_and_duplicate() {
    loser_is_a_duplicate("serializable").await;
}

#[idempotent_consumer(name = "transfer", topic = "transfers", isolation = "serializable")]
async fn transfer(tx: &mut Transaction<'_, Postgres>, id: MessageId, State(both): State<Arc<Barrier>>) -> Result<(), sqlx::Error> {
    let _sum: Option<i64> = sqlx::query_scalar("SELECT sum(balance_cents)::bigint FROM accounts").fetch_one(&mut **tx).await?;
    // The first attempts of both have read before either writes; later attempts pass.
    let _ = tokio::time::timeout(Duration::from_millis(500), both.wait()).await;
    sqlx::query("UPDATE accounts SET balance_cents = balance_cents + 1 WHERE id = 1").execute(&mut **tx).await?;
    note(tx, "transfer", id).await
}

#[tokio::test]
async fn b9_a_serialization_failure_of_the_body_is_tried_again_in_place() {
    let pool = postgres_with(6).await;
    let both = Arc::new(Barrier::new(2));
    let (ids, mut running) = ([new_id(), new_id()], Vec::new());
    for id in ids {
        let dispatcher = inbox_runtime::Dispatcher::builder(&pool).only(["transfer"]).state(Arc::clone(&both)).build().await.unwrap();
        let broker = Memory::new();
        let mut message = order(id, "{}");
        "transfers".clone_into(&mut message.topic);
        broker.publish(message);
        running.push((serve(dispatcher, &broker, intake()), broker));
    }
    for (running, broker) in running {
        running.drain(&broker).await;
        running.stop().await.unwrap();
        assert_eq!((broker.counts().deliveries, broker.counts().done), (1, 1), "tried again inside, not by the broker");
    }
    for id in ids {
        assert_once(&pool, "transfer", id).await;
    }
    assert!(yes(&pool, "SELECT balance_cents = 2 FROM accounts WHERE id = 1").await);
}

#[tokio::test]
async fn b11_duplicates_that_wait_do_not_starve_another_message() {
    let pool = postgres_with(4).await;
    let (slow, other) = (new_id(), new_id());
    let (at, gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let body = {
        let (at, gate) = (Arc::clone(&at), Arc::clone(&gate));
        script(move |tx, id| {
            let (at, gate) = (Arc::clone(&at), Arc::clone(&gate));
            Box::pin(async move {
                note(tx, "billing", id).await?;
                if id == slow {
                    at.notify_one();
                    gate.notified().await;
                }
                Ok(())
            })
        })
    };
    let mut calls = Vec::new();
    for _ in 0..4 {
        let (pool, body) = (pool.clone(), body.clone());
        calls.push(tokio::spawn(async move { billing(&pool, slow, slow, body).await }));
    }
    at.notified().await;
    // The slow one is still at it.
    assert_eq!(billing(&pool, other, other, body).await.unwrap(), Outcome::Applied(()));
    assert!(!yes(&pool, WAITING).await, "no connection is spent on waiting");
    gate.notify_one();
    for call in calls {
        let _ = call.await.unwrap().unwrap();
    }
    assert_once(&pool, "billing", slow).await;
    assert_once(&pool, "billing", other).await;
}

#[tokio::test]
async fn b11_a_body_that_wants_a_second_connection_of_a_pool_of_one_is_told_so() {
    let (pool, broker) = (postgres_with(1).await, Memory::new());
    let body = {
        let pool = pool.clone();
        script(move |_, _| {
            let pool = pool.clone();
            Box::pin(async move { Ok(sqlx::query("SELECT 1").execute(&pool).await.map(drop)?) })
        })
    };
    let dispatcher = dispatcher(&pool, body, &["billing"]).await;
    broker.publish(order(new_id(), "{}"));
    let failures = dispatch_one(&dispatcher, &broker).await;
    assert_eq!(failures.len(), 1);
    assert!(failures[0].contains("consumer `billing`"), "{failures:?}");
    assert!(failures[0].contains("write through its transaction instead"), "{failures:?}");
}

#[tokio::test]
async fn a_deadlock_between_bodies_is_tried_again_in_place() {
    let (pool, ids) = (postgres_with(6).await, [new_id(), new_id()]);
    let both = Arc::new(Barrier::new(2));
    let body = {
        let both = Arc::clone(&both);
        script(move |tx, id| {
            let both = Arc::clone(&both);
            Box::pin(async move {
                let (first, second) = if id == ids[0] { (1, 2) } else { (2, 1) };
                touch(tx, first).await?;
                let _ = tokio::time::timeout(Duration::from_millis(500), both.wait()).await;
                touch(tx, second).await?;
                Ok(note(tx, "billing", id).await?)
            })
        })
    };
    let mut running = Vec::new();
    for id in ids {
        let broker = Memory::new();
        broker.publish(order(id, "{}"));
        running.push((serve(dispatcher(&pool, body.clone(), &["billing"]).await, &broker, intake()), broker));
    }
    for (running, broker) in running {
        running.drain(&broker).await;
        running.stop().await.unwrap();
        assert_eq!((broker.counts().deliveries, broker.counts().done), (1, 1));
    }
    for id in ids {
        assert_once(&pool, "billing", id).await;
    }
}

async fn touch(tx: &mut PgConnection, account: i64) -> Result<(), sqlx::Error> {
    let update = sqlx::query("UPDATE accounts SET balance_cents = balance_cents + 1 WHERE id = $1");
    update.bind(account).execute(tx).await.map(drop)
}
