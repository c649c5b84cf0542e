//! B5: the answer to COMMIT is lost. Only claiming again knows what it was.

use std::time::Duration;

use inbox_runtime::{FailureKind, Inbox, Outcome, ProcessError, broker::Memory};
use inbox_tests::{
    database::{bare_postgres, postgres_pool},
    proxy::{Lose, Proxy},
};
use sqlx::PgPool;

use super::support::*;

/// Through the proxy, and past it.
async fn proxied() -> (Proxy, Inbox<sqlx::Postgres>, PgPool) {
    let direct = bare_postgres().await;
    let proxy = Proxy::to(&direct).await;
    let watcher = postgres_pool(direct.clone(), 2).await;
    Inbox::new(&watcher).migrate().await.unwrap();
    let pool = postgres_pool(proxy.through(direct), 2).await;
    let inbox = Inbox::builder(pool).step_timeout(Duration::from_millis(500)).build().unwrap();
    inbox.verify().await.unwrap();
    (proxy, inbox, watcher)
}

#[tokio::test]
async fn b5_a_commit_that_happened_is_a_duplicate_for_the_caller() {
    for how in [Lose::Reply, Lose::ReplySilently] {
        let (proxy, inbox, watcher) = proxied().await;
        let id = new_id();
        proxy.lose_next_commit(how);
        let outcome = billing(&inbox, id, id, noting()).await.unwrap();
        assert_eq!(proxy.commits_lost(), 1, "{how:?}");
        // Applied by this call, but it can only know that it is applied.
        assert_eq!(outcome, Outcome::Duplicate(()), "{how:?}");
        assert_once(&watcher, "billing", id).await;
    }
}

#[tokio::test]
async fn b5_the_reply_of_a_commit_that_happened_is_not_lost() {
    let (proxy, inbox, watcher) = proxied().await;
    let id = new_id();
    proxy.lose_next_commit(Lose::Reply);
    let outcome = answering(&inbox, id, id, script(|_, _| Box::pin(async { Ok(()) }))).await.unwrap();
    assert_eq!(outcome, Outcome::Duplicate(format!("answer to {id}")));
    assert_once(&watcher, "answering", id).await;
}

#[tokio::test]
async fn b5_a_commit_that_never_arrived_is_known_not_to_have_happened() {
    let (proxy, inbox, watcher) = proxied().await;
    let id = new_id();
    proxy.lose_next_commit(Lose::Request);
    // The arguments of a direct call are used up, so the caller is told to call again.
    let failed = billing(&inbox, id, id, noting()).await.unwrap_err();
    assert_eq!(proxy.commits_lost(), 1);
    assert!(matches!(failed, ProcessError::NotCommitted), "{failed:?}");
    assert_eq!(failed.kind(), FailureKind::Transient);
    assert_untouched(&watcher, "billing", id).await;
    assert_eq!(billing(&inbox, id, id, noting()).await.unwrap(), Outcome::Applied(()));
    assert_once(&watcher, "billing", id).await;
}

#[tokio::test]
async fn b5_a_delivery_is_settled_in_place_once_its_outcome_is_known() {
    for how in [Lose::Reply, Lose::ReplySilently, Lose::Request] {
        let (proxy, inbox, watcher) = proxied().await;
        let (id, broker) = (new_id(), Memory::new());
        let dispatcher = inbox_runtime::Dispatcher::builder(&inbox).only(["billing"]).state(noting().0).build().await.unwrap();
        proxy.lose_next_commit(how);
        broker.publish(order(id, "{}"));
        let running = serve(dispatcher, &broker, intake());
        running.drain(&broker).await;
        running.stop().await.unwrap();
        assert_eq!(proxy.commits_lost(), 1, "{how:?}");
        let counts = broker.counts();
        assert_eq!((counts.deliveries, counts.done, counts.dead_lettered, counts.retried), (1, 1, 0, 0), "{how:?}");
        assert_once(&watcher, "billing", id).await;
        assert!(letters(&watcher).await.is_empty(), "{how:?}");
    }
}

#[tokio::test]
async fn b5_an_outcome_that_stays_unknown_is_neither_acked_nor_a_failure_of_the_body() {
    let (proxy, inbox, watcher) = proxied().await;
    let hurried = Inbox::builder(inbox.pool().clone()).step_timeout(Duration::from_millis(300)).settle_timeout(Duration::ZERO);
    let (hurried, id) = (hurried.build().unwrap(), new_id());
    proxy.lose_next_commit(Lose::ReplySilently);
    let failed = billing(&hurried, id, id, noting()).await.unwrap_err();
    assert!(matches!(failed, ProcessError::Unknown(_)), "{failed:?}");
    assert_eq!(failed.kind(), FailureKind::Transient);
    // The redelivery finds out.
    assert_eq!(billing(&inbox, id, id, noting()).await.unwrap(), Outcome::Duplicate(()));
    assert_once(&watcher, "billing", id).await;
}

#[tokio::test]
async fn b5_the_lost_commit_of_a_dead_letter_acks_nothing_and_stores_one() {
    let (proxy, inbox, watcher) = proxied().await;
    let (id, broker) = (new_id(), Memory::new());
    let dispatcher = inbox_runtime::Dispatcher::builder(&inbox).only(["shipping"]).build().await.unwrap();
    proxy.lose_next_commit(Lose::Reply);
    let mut unwanted = order(id, "{}");
    "refunds".clone_into(&mut unwanted.topic);
    broker.publish(unwanted);
    let running = serve(dispatcher, &broker, intake());
    running.drain(&broker).await;
    running.stop().await.unwrap();
    assert_eq!(proxy.commits_lost(), 1);
    let counts = broker.counts();
    assert_eq!((counts.deliveries, counts.dead_lettered, counts.retried), (2, 1, 1), "{counts:?}");
    let letters = letters(&watcher).await;
    assert!(letters.iter().all(|letter| letter.reason == "unmatched" && letter.message_id == Some(id.as_uuid())), "{letters:?}");
    assert!(!letters.is_empty());
}

#[inbox_runtime::idempotent_consumer(name = "repeatable", isolation = "repeatable read")]
async fn repeatable(tx: &mut sqlx::Transaction<'_, sqlx::Postgres>, id: inbox_runtime::MessageId) -> Result<(), sqlx::Error> {
    note(tx, "repeatable", id).await
}

/// Under a stricter level the claim that is to find out waits for the first COMMIT and then meets 40001: that decides nothing yet.
#[tokio::test]
async fn b5_a_conflict_while_finding_out_does_not_say_that_nothing_was_applied() {
    let (_proxy, _inbox, pool) = proxied().await;
    run(
        &pool,
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(2); RETURN NULL; END $$; \
         CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON applied DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()",
    )
    .await;
    let builder = Inbox::builder(pool.clone()).step_timeout(Duration::from_secs(1)).claim_wait(Duration::from_secs(5));
    let (inbox, id) = (builder.build().unwrap(), new_id());
    let outcome = repeatable(&inbox, id, id).await.unwrap();
    assert_eq!(outcome, Outcome::Duplicate(()));
    assert_once(&pool, "repeatable", id).await;
}
