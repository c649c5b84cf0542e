//! Duplicates that wait for the first one: bounded, and they get its answer.

use std::{sync::Arc, time::Duration};

use inbox_runtime::{FailureKind, Inbox, Outcome, ProcessError, State};
use inbox_tests::database::{bare_postgres, postgres_pool, postgres_with};
use tokio::sync::Notify;

use super::support::*;

#[derive(Clone, Default)]
struct Slow {
    at: Arc<Notify>,
    gate: Arc<Notify>,
}

impl Slow {
    /// Says that it runs, then waits to be let go.
    fn body(&self) -> State<Script> {
        let slow = self.clone();
        script(move |_, _| {
            let slow = slow.clone();
            Box::pin(async move {
                slow.at.notify_one();
                slow.gate.notified().await;
                Ok(())
            })
        })
    }
}

fn nothing() -> State<Script> {
    script(|_, _| Box::pin(async { Ok(()) }))
}

#[tokio::test]
async fn a_duplicate_in_another_process_waits_no_longer_than_it_may() {
    let (pool, id, slow) = (postgres_with(4).await, new_id(), Slow::default());
    let first = tokio::spawn({
        let (pool, body) = (pool.clone(), slow.body());
        async move { answering(&pool, id, id, body).await }
    });
    slow.at.notified().await;
    // Its own set of ids in flight: the wait is the claim's.
    let elsewhere = Inbox::builder(pool.clone()).claim_wait(Duration::from_millis(100)).build().unwrap();
    let waited = answering(&elsewhere, id, id, nothing()).await.unwrap_err();
    assert!(matches!(waited, ProcessError::InFlight), "{waited:?}");
    assert_eq!(waited.kind(), FailureKind::Transient);
    // And within one process, where it takes no connection.
    let here = Inbox::builder(pool.clone()).claim_wait(Duration::from_millis(100)).build().unwrap();
    let (again, slow_too) = (new_id(), Slow::default());
    let other = tokio::spawn({
        let (here, body) = (here.clone(), slow_too.body());
        async move { answering(&here, again, again, body).await }
    });
    slow_too.at.notified().await;
    assert!(matches!(answering(&here, again, again, nothing()).await, Err(ProcessError::InFlight)));
    slow.gate.notify_one();
    slow_too.gate.notify_one();
    assert!(first.await.unwrap().unwrap().is_applied());
    assert!(other.await.unwrap().unwrap().is_applied());
    assert_once(&pool, "answering", id).await;
    assert_once(&pool, "answering", again).await;
}

#[tokio::test]
async fn the_bound_of_the_claim_does_not_bind_the_body() {
    for (role, expected) in [("0", "0"), ("7s", "7s")] {
        let pool = postgres_pool(bare_postgres().await.options([("lock_timeout", role)]), 2).await;
        let (inbox, id) = (Inbox::builder(pool.clone()).claim_wait(Duration::from_millis(50)).build().unwrap(), new_id());
        inbox.migrate().await.unwrap();
        let asking = script(move |tx, id| {
            Box::pin(async move {
                let found: String = sqlx::query_scalar("SHOW lock_timeout").fetch_one(&mut **tx).await?;
                assert_eq!(found, expected);
                Ok(note(tx, "billing", id).await?)
            })
        });
        assert!(billing(&inbox, id, id, asking).await.unwrap().is_applied());
        assert_once(&pool, "billing", id).await;
    }
}

#[tokio::test]
async fn duplicates_that_wait_get_the_answer_of_the_first() {
    let (pool, id, slow) = (postgres_with(6).await, new_id(), Slow::default());
    let first = tokio::spawn({
        let (pool, body) = (pool.clone(), slow.body());
        async move { answering(&pool, id, id, body).await }
    });
    slow.at.notified().await;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let elsewhere = Inbox::builder(pool.clone()).claim_wait(Duration::from_secs(20)).build().unwrap();
        waiting.push(tokio::spawn(async move { answering(&elsewhere, id, id, nothing()).await }));
    }
    let here = pool.clone();
    waiting.push(tokio::spawn(async move { answering(&here, id, id, nothing()).await }));
    until(&pool, WAITING).await;
    slow.gate.notify_one();
    let answer = format!("answer to {id}");
    assert_eq!(first.await.unwrap().unwrap(), Outcome::Applied(answer.clone()));
    for call in waiting {
        assert_eq!(call.await.unwrap().unwrap(), Outcome::Duplicate(answer.clone()));
    }
    assert_once(&pool, "answering", id).await;
}

#[tokio::test]
async fn a_recorded_answer_survives_as_it_is() {
    let (pool, id) = (postgres_with(1).await, new_id());
    let first = answering(&pool, id, id, nothing()).await.unwrap();
    for _ in 0..2 {
        assert_eq!(answering(&pool, id, id, nothing()).await.unwrap(), Outcome::Duplicate(first.clone().into_inner()));
    }
    let stored: serde_json::Value =
        sqlx::query_scalar("SELECT reply FROM public.inbox WHERE message_id = $1").bind(id.as_uuid()).fetch_one(&pool).await.unwrap();
    assert_eq!(stored, serde_json::json!(format!("answer to {id}")));
}

/// "As long as it takes" must not be taken for an instant that does not exist.
#[tokio::test]
async fn the_longest_durations_are_taken() {
    let pool = postgres_with(4).await;
    let build = || Inbox::builder(pool.clone());
    let longest = Duration::MAX;
    for builder in
        [build().step_timeout(longest), build().claim_wait(longest), build().settle_timeout(longest), build().body_timeout(longest)]
    {
        let id = new_id();
        let outcome = billing(&builder.build().unwrap(), id, id, noting()).await;
        assert_eq!(outcome.unwrap(), Outcome::Applied(()));
        assert_once(&pool, "billing", id).await;
    }
}
