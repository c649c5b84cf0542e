//! Who runs the body: one of any number of copies, and once for each consumer.

use std::sync::Arc;

use inbox_runtime::{Inbox, Json, MessageId, Outcome, ProcessError, State, idempotent_consumer};
use inbox_tests::database::{bare_postgres, postgres, postgres_pool};
use sqlx::{PgPool, Postgres, Transaction};
use tokio::sync::Semaphore;

use super::support::*;

/// A gate that the body waits at, and a bell that it rings when it is there.
fn gated(at: &Arc<Semaphore>, gate: &Arc<Semaphore>) -> State<Script> {
    let (at, gate) = (Arc::clone(at), Arc::clone(gate));
    script(move |tx, id| {
        let (at, gate) = (Arc::clone(&at), Arc::clone(&gate));
        Box::pin(async move {
            note(tx, "billing", id).await?;
            at.add_permits(1);
            gate.acquire().await?.forget();
            Ok(())
        })
    })
}

#[tokio::test]
async fn a1_a_claim_that_failed_leaves_no_memory_of_the_message() {
    let (pool, id) = (postgres().await, new_id());
    let mut locker = pool.begin().await.unwrap();
    run(&mut *locker, "LOCK TABLE public.inbox").await;
    let first = tokio::spawn(call(&pool, id, noting()));
    until(&pool, WAITING).await;
    run(&pool, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
        .await;
    let first = first.await.unwrap();
    locker.rollback().await.unwrap();
    assert!(matches!(first, Err(ProcessError::Database(_))), "{first:?}");
    assert_untouched(&pool, "billing", id).await;
    assert!(matches!(billing(&pool, id, id, noting()).await, Ok(Outcome::Applied(()))));
    assert!(matches!(billing(&pool, id, id, noting()).await, Ok(Outcome::Duplicate(()))));
    assert_once(&pool, "billing", id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a3_two_copies_at_once_run_the_body_once() {
    let pool = postgres().await;
    let (at, gate, id) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)), new_id());
    let first = tokio::spawn(call(&pool, id, gated(&at, &gate)));
    at.acquire().await.unwrap().forget();
    // A second process: it shares no set of ids with the first, and meets it in the claim.
    let elsewhere = Inbox::builder(pool.clone()).build().unwrap();
    let body = gated(&at, &gate);
    let second = tokio::spawn(async move { billing(&elsewhere, id, id, body).await });
    until(&pool, WAITING).await;
    assert!(!second.is_finished(), "a duplicate waits for the first to end");
    gate.add_permits(2);
    assert!(matches!(first.await.unwrap(), Ok(Outcome::Applied(()))));
    assert!(matches!(second.await.unwrap(), Ok(Outcome::Duplicate(()))));
    assert_once(&pool, "billing", id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a3_the_second_copy_runs_the_body_when_the_first_rolls_back() {
    let pool = postgres().await;
    let (at, gate, id) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)), new_id());
    let failing = {
        let (at, gate) = (Arc::clone(&at), Arc::clone(&gate));
        script(move |tx, id| {
            let (at, gate) = (Arc::clone(&at), Arc::clone(&gate));
            Box::pin(async move {
                note(tx, "billing", id).await?;
                at.add_permits(1);
                gate.acquire().await?.forget();
                Err("no stock".into())
            })
        })
    };
    let first = tokio::spawn(call(&pool, id, failing));
    at.acquire().await.unwrap().forget();
    let elsewhere = Inbox::builder(pool.clone()).build().unwrap();
    let second = tokio::spawn(async move { billing(&elsewhere, id, id, noting()).await });
    until(&pool, WAITING).await;
    gate.add_permits(1);
    assert!(matches!(first.await.unwrap(), Err(ProcessError::Handler(_))));
    assert!(matches!(second.await.unwrap(), Ok(Outcome::Applied(()))));
    assert_once(&pool, "billing", id).await;
}

fn call(pool: &PgPool, id: MessageId, body: State<Script>) -> impl Future<Output = Called> + Send + use<> {
    let pool = pool.clone();
    async move { billing(&pool, id, id, body).await }
}

#[tokio::test]
async fn a5_two_consumers_of_one_message_both_run() {
    let pool = postgres().await;
    let id = new_id();
    for _ in 0..2 {
        let _ = billing(&pool, id, id, noting()).await.unwrap();
        let _ = shipping(&pool, id, id).await.unwrap();
    }
    assert_once(&pool, "billing", id).await;
    assert_once(&pool, "shipping", id).await;
}

#[idempotent_consumer(name = "ledger", aliases = ["books", "accounts.v1"])]
async fn renamed(tx: &mut Transaction<'_, Postgres>, id: MessageId) -> Result<(), sqlx::Error> {
    note(tx, "ledger", id).await
}

#[idempotent_consumer(name = "books")]
async fn as_it_was(tx: &mut Transaction<'_, Postgres>, id: MessageId) -> Result<(), sqlx::Error> {
    note(tx, "ledger", id).await
}

#[tokio::test]
async fn an_alias_keeps_the_history_both_ways() {
    let pool = postgres().await;
    let (before, after) = (new_id(), new_id());
    // What the old name applied is a duplicate for the new one.
    let _ = as_it_was(&pool, before, before).await.unwrap();
    assert_eq!(renamed(&pool, before, before).await.unwrap(), Outcome::Duplicate(()));
    // And the other way round, while the old version still runs beside the new one.
    assert_eq!(renamed(&pool, after, after).await.unwrap(), Outcome::Applied(()));
    assert_eq!(as_it_was(&pool, after, after).await.unwrap(), Outcome::Duplicate(()));
    for id in [before, after] {
        assert_eq!(applied(&pool, "ledger", id).await, 1);
    }
    // The duplicate claimed nothing for the names that were free.
    assert_eq!((claimed(&pool, "ledger", before).await, claimed(&pool, "books", before).await), (0, 1));
    let names = ["accounts.v1", "books", "ledger"];
    for name in names {
        assert_eq!(claimed(&pool, name, after).await, 1, "{name}");
    }
}

#[tokio::test]
async fn a_custom_schema_and_prefix_hold_the_inbox() {
    let pool = postgres_pool(bare_postgres().await, 2).await;
    let inbox = Inbox::builder(pool.clone()).schema("Billing_2").table_prefix("eu_").build().unwrap();
    inbox.migrate().await.unwrap();
    let id = new_id();
    assert!(billing(&inbox, id, id, noting()).await.unwrap().is_applied());
    assert!(!billing(&inbox, id, id, noting()).await.unwrap().is_applied());
    assert_eq!(applied(&pool, "billing", id).await, 1);
    assert!(yes(&pool, r#"SELECT count(*) = 1 FROM "Billing_2"."eu_inbox""#).await);
    assert!(yes(&pool, "SELECT to_regclass('public.inbox') IS NULL").await, "nothing is made elsewhere");
    // Two inboxes in one database know nothing of each other.
    let other = Inbox::builder(pool.clone()).schema("Billing_2").build().unwrap();
    other.migrate().await.unwrap();
    assert!(billing(&other, id, id, noting()).await.unwrap().is_applied());
}

#[tokio::test]
async fn a_temporary_table_named_inbox_does_not_fool_the_claim() {
    let pool = postgres_pool(bare_postgres().await, 1).await;
    let inbox = Inbox::builder(pool.clone()).reset_session(false).build().unwrap();
    inbox.migrate().await.unwrap();
    let id = new_id();
    assert!(billing(&inbox, id, id, noting()).await.unwrap().is_applied());
    run(&pool, "CREATE TEMPORARY TABLE inbox (LIKE public.inbox INCLUDING ALL); SET search_path = pg_temp, public").await;
    assert!(!billing(&inbox, id, id, noting()).await.unwrap().is_applied());
    assert_once(&pool, "billing", id).await;
}

#[derive(serde::Deserialize)]
struct Order {
    amount_cents: i64,
    account_id: i64,
}

#[idempotent_consumer(name = "credit")]
async fn credit(tx: &mut Transaction<'_, Postgres>, Json(order): Json<Order>) -> Result<(), sqlx::Error> {
    let update = sqlx::query("UPDATE accounts SET balance_cents = balance_cents + $1 WHERE id = $2");
    update.bind(order.amount_cents).bind(order.account_id).execute(&mut **tx).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_copies_from_three_processes_credit_the_account_once() {
    let pool = postgres().await;
    let inboxes: Vec<_> = (0..3).map(|_| Inbox::builder(pool.clone()).build().unwrap()).collect();
    let id = new_id();
    let calls: Vec<_> = (0..30)
        .map(|i| {
            let inbox = inboxes[i % 3].clone();
            tokio::spawn(async move { credit(&inbox, id, Json(Order { amount_cents: 500, account_id: 1 })).await })
        })
        .collect();
    let mut first = 0;
    for call in calls {
        first += i32::from(call.await.unwrap().unwrap().is_applied());
    }
    assert_eq!(first, 1);
    assert!(yes(&pool, "SELECT balance_cents = 500 FROM accounts WHERE id = 1").await);
}
