//! Callers that go away, at any moment, and bodies that are cut: nothing stays open on the server.

use std::{sync::Arc, time::Duration};

use inbox_runtime::{Inbox, Outcome, ProcessError};
use inbox_tests::{
    database::{bare_postgres, postgres_pool, postgres_with},
    proxy::Proxy,
};
use sqlx::PgPool;
use tokio::{sync::Notify, time::timeout};

use super::support::*;

const OPEN: &str = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() \
    AND xact_start IS NOT NULL AND backend_type = 'client backend')";
const NOTHING_OPEN: &str = "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() \
    AND xact_start IS NOT NULL AND backend_type = 'client backend')";
const SLEEPING: &str = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' \
    AND pid <> pg_backend_pid() AND query LIKE '%pg_sleep%')";

/// A write of an application that shares the pool: it must not land in somebody's open transaction.
async fn write_is_seen(pool: &PgPool, watcher: &PgPool) {
    let balance = "UPDATE accounts SET balance_cents = balance_cents + 1 WHERE id = 4";
    run(pool, balance).await;
    assert!(yes(watcher, "SELECT balance_cents = 1 FROM accounts WHERE id = 4").await, "an autocommitted write was lost");
    run(watcher, "UPDATE accounts SET balance_cents = 0 WHERE id = 4").await;
}

#[tokio::test]
async fn b2_a_caller_that_leaves_during_begin_leaves_an_idle_session() {
    let direct = bare_postgres().await;
    let watcher = postgres_pool(direct.clone(), 1).await;
    let proxy = Proxy::to(&direct).await;
    // Without our hook on the pool: the heart itself must not need it.
    let plain = sqlx::postgres::PgPoolOptions::new().max_connections(1);
    let pool = plain.connect_with(proxy.through(direct)).await.unwrap();
    let inbox = Inbox::new(&pool);
    inbox.migrate().await.unwrap();
    inbox.verify().await.unwrap();
    proxy.latency(Duration::from_millis(40));
    for abort in [false, true] {
        let id = new_id();
        if abort {
            let call = tokio::spawn({
                let pool = pool.clone();
                async move { billing(&pool, id, id, noting()).await }
            });
            tokio::time::sleep(Duration::from_millis(15)).await;
            call.abort();
            assert!(call.await.unwrap_err().is_cancelled());
        } else {
            let left = timeout(Duration::from_millis(15), billing(&pool, id, id, noting())).await;
            left.expect_err("it was still in begin");
        }
        write_is_seen(&pool, &watcher).await;
        until(&watcher, NOTHING_OPEN).await;
        assert_untouched(&watcher, "billing", id).await;
    }
}

#[tokio::test]
async fn a_caller_that_leaves_at_any_moment_leaves_all_or_nothing() {
    let direct = bare_postgres().await;
    let watcher = postgres_pool(direct.clone(), 1).await;
    let proxy = Proxy::to(&direct).await;
    let plain = sqlx::postgres::PgPoolOptions::new().max_connections(1);
    let pool = plain.connect_with(proxy.through(direct)).await.unwrap();
    let inbox = Inbox::new(&pool);
    inbox.migrate().await.unwrap();
    inbox.verify().await.unwrap();
    proxy.latency(Duration::from_millis(10));
    // Begin, claim, body, guard, commit and reset take 20 ms each: every one of them is left at least once.
    for after in (5..150).step_by(10) {
        let id = new_id();
        let left = timeout(Duration::from_millis(after), billing(&pool, id, id, noting())).await;
        write_is_seen(&pool, &watcher).await;
        until(&watcher, NOTHING_OPEN).await;
        let found = (applied(&watcher, "billing", id).await, claimed(&watcher, "billing", id).await);
        assert!(matches!(found, (0, 0) | (1, 1)), "half of it after {after} ms: {found:?}");
        assert!(left.is_err() || found == (1, 1), "told before it was true, after {after} ms");
        let expected = if found == (1, 1) { Outcome::Duplicate(()) } else { Outcome::Applied(()) };
        assert_eq!(billing(&pool, id, id, noting()).await.unwrap(), expected, "after {after} ms");
        assert_once(&watcher, "billing", id).await;
    }
}

#[tokio::test]
async fn a_caller_that_leaves_while_a_statement_runs_frees_the_claim() {
    let (pool, id, sleeping) = (postgres_with(4).await, new_id(), Arc::new(Notify::new()));
    let busy = {
        let sleeping = Arc::clone(&sleeping);
        script(move |tx, id| {
            let sleeping = Arc::clone(&sleeping);
            Box::pin(async move {
                note(tx, "billing", id).await?;
                sleeping.notify_one();
                raw(tx, "SELECT pg_sleep(600)").await
            })
        })
    };
    let call = tokio::spawn({
        let pool = pool.clone();
        async move { billing(&pool, id, id, busy).await }
    });
    sleeping.notified().await;
    until(&pool, SLEEPING).await;
    call.abort();
    // Another process gets the claim, and not after ten minutes.
    let elsewhere = Inbox::builder(pool.clone()).claim_wait(Duration::from_secs(20)).build().unwrap();
    assert_eq!(billing(&elsewhere, id, id, noting()).await.unwrap(), Outcome::Applied(()));
    assert_once(&pool, "billing", id).await;
    assert!(!yes(&pool, SLEEPING).await);
}

#[tokio::test]
async fn a_timeout_of_the_body_cuts_its_statement_on_the_server() {
    let (pool, id) = (postgres_with(4).await, new_id());
    let busy = script(|tx, id| {
        Box::pin(async move {
            note(tx, "impatient", id).await?;
            raw(tx, "SELECT pg_sleep(600)").await
        })
    });
    let failed = impatient(&pool, id, id, busy).await.unwrap_err();
    assert!(matches!(failed, ProcessError::TimedOut(after) if after == Duration::from_millis(300)), "{failed:?}");
    assert!(!yes(&pool, SLEEPING).await, "it still runs");
    assert_untouched(&pool, "impatient", id).await;
    until(&pool, NOTHING_OPEN).await;
}

#[tokio::test]
async fn a_timeout_does_not_cut_what_is_not_the_body() {
    let direct = bare_postgres().await;
    let proxy = Proxy::to(&direct).await;
    let pool = postgres_pool(proxy.through(direct), 1).await;
    let inbox = Inbox::new(&pool);
    inbox.migrate().await.unwrap();
    inbox.verify().await.unwrap();
    // Begin, claim, guard and commit take longer than `impatient` may run, each by itself.
    proxy.latency(Duration::from_millis(200));
    let id = new_id();
    assert_eq!(impatient(&pool, id, id, script(|_, _| Box::pin(async { Ok(()) }))).await.unwrap(), Outcome::Applied(()));
    assert_eq!(claimed(&pool, "impatient", id).await, 1);
}

#[tokio::test]
async fn a_caller_that_waits_for_its_turn_can_leave() {
    let (pool, id) = (postgres_with(2).await, new_id());
    let (at, gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let slow = {
        let (at, gate) = (Arc::clone(&at), Arc::clone(&gate));
        script(move |tx, id| {
            let (at, gate) = (Arc::clone(&at), Arc::clone(&gate));
            Box::pin(async move {
                note(tx, "billing", id).await?;
                at.notify_one();
                gate.notified().await;
                Ok(())
            })
        })
    };
    let first = tokio::spawn({
        let pool = pool.clone();
        async move { billing(&pool, id, id, slow).await }
    });
    at.notified().await;
    assert!(yes(&pool, OPEN).await);
    timeout(Duration::from_millis(30), billing(&pool, id, id, noting())).await.expect_err("it waits");
    gate.notify_one();
    assert_eq!(first.await.unwrap().unwrap(), Outcome::Applied(()));
    assert_eq!(billing(&pool, id, id, noting()).await.unwrap(), Outcome::Duplicate(()));
    assert_once(&pool, "billing", id).await;
}
