//! The opt-in guard: a COMMIT of the body applies nothing, and the heart's own commits pass.

use inbox_runtime::{Inbox, ProcessError};
use inbox_tests::database::postgres;

use super::support::*;

#[tokio::test]
async fn a_commit_of_the_body_is_refused_by_the_database() {
    let pool = postgres().await;
    let inbox = Inbox::new(&pool);
    inbox.guard_commits().await.unwrap();
    inbox.guard_commits().await.expect("it may be said again");
    inbox.verify().await.expect("our own trigger is no foreign one");
    for spelling in ["COMMIT", "END", "COMMIT AND CHAIN", "COMMIT; BEGIN"] {
        let id = new_id();
        let escaping = script(move |tx, id| {
            Box::pin(async move {
                note(tx, "billing", id).await?;
                raw(tx, spelling).await
            })
        });
        let failed = billing(&inbox, id, id, escaping).await.expect_err(spelling);
        assert!(matches!(failed, ProcessError::TransactionEscaped), "{spelling}: {failed:?}");
        // Without the guard the effect and the claim stand here.
        assert_untouched(&pool, "billing", id).await;
    }
    let id = new_id();
    assert!(billing(&inbox, id, id, noting()).await.unwrap().is_applied());
    assert!(!billing(&inbox, id, id, noting()).await.unwrap().is_applied());
    assert_once(&pool, "billing", id).await;
}

#[tokio::test]
async fn constraints_made_immediate_trip_it_and_apply_nothing() {
    let pool = postgres().await;
    let inbox = Inbox::new(&pool);
    inbox.guard_commits().await.unwrap();
    let id = new_id();
    let tripping = script(|tx, id| {
        Box::pin(async move {
            note(tx, "billing", id).await?;
            raw(tx, "SET CONSTRAINTS ALL IMMEDIATE").await
        })
    });
    let failed = billing(&inbox, id, id, tripping).await.expect_err("refused");
    assert!(matches!(failed, ProcessError::Handler(_)), "{failed:?}");
    assert_untouched(&pool, "billing", id).await;
}
