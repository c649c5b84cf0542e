//! The least that a role needs at run time. Everything but `migrate` works with exactly this:
//!
//! ```sql
//! GRANT USAGE ON SCHEMA public TO app;
//! GRANT SELECT, INSERT ON public.inbox TO app;
//! GRANT UPDATE (reply) ON public.inbox TO app;  -- only where a consumer returns `Reply`
//! GRANT SELECT, INSERT, UPDATE ON public.inbox_dead_letter TO app;
//! ```

use inbox_runtime::{Dispatcher, Inbox, Message, ProcessError, broker::Memory};
use inbox_tests::database::{bare_postgres, postgres_pool};
use sqlx::PgPool;

use super::support::*;

const GRANTS: [&str; 4] = [
    "USAGE ON SCHEMA public",
    "SELECT, INSERT ON public.inbox",
    "UPDATE (reply) ON public.inbox",
    "SELECT, INSERT, UPDATE ON public.inbox_dead_letter",
];

/// The owner's pool, and one of a role that has been granted this. Roles belong to the server: each test has its own.
async fn with_role(name: &str, grants: &[&str]) -> (PgPool, PgPool, Role) {
    let options = bare_postgres().await;
    let owner = postgres_pool(options.clone(), 2).await;
    let inbox = Inbox::new(&owner);
    inbox.migrate().await.unwrap();
    let role = format!("inbox_app_{}_{name}", std::process::id());
    run(&owner, &format!("DROP ROLE IF EXISTS {role}; CREATE ROLE {role} LOGIN")).await;
    run(&owner, "REVOKE ALL ON SCHEMA public FROM PUBLIC").await;
    for grant in grants {
        run(&owner, &format!("GRANT {grant} TO {role}")).await;
    }
    // What its own bodies write.
    run(&owner, &format!("GRANT USAGE ON SCHEMA public TO {role}; GRANT SELECT, INSERT ON applied TO {role}")).await;
    let app = postgres_pool(options.username(&role), 3).await;
    (owner.clone(), app, Role { owner, role })
}

struct Role {
    owner: PgPool,
    role: String,
}

impl Role {
    async fn drop(self, app: PgPool) {
        app.close().await;
        run(&self.owner, &format!("DROP OWNED BY {}", self.role)).await;
        run(&self.owner, &format!("DROP ROLE {}", self.role)).await;
    }
}

fn slow_for(id: inbox_runtime::MessageId) -> inbox_runtime::State<Script> {
    script(move |tx, this| {
        Box::pin(async move {
            note(tx, "impatient", this).await?;
            if this == id { raw(tx, "SELECT pg_sleep(600)").await } else { Ok(()) }
        })
    })
}

#[tokio::test]
async fn the_documented_grants_are_enough() {
    let (owner, app, role) = with_role("enough", &GRANTS).await;
    Inbox::new(&app).verify().await.unwrap();
    let id = new_id();
    for _ in 0..2 {
        let _ = billing(&app, id, id, noting()).await.unwrap();
        let _ = answering(&app, id, id, script(|_, _| Box::pin(async { Ok(()) }))).await.unwrap();
    }
    assert_once(&owner, "billing", id).await;
    assert_once(&owner, "answering", id).await;
    // A statement of its own can be cancelled.
    let slow = new_id();
    assert!(matches!(impatient(&app, slow, slow, slow_for(slow)).await, Err(ProcessError::TimedOut(_))));
    assert_untouched(&owner, "impatient", slow).await;
    // A duplicate whose row is not on disk yet needs a barrier.
    for _ in 0..10 {
        let id = new_id();
        run(&owner, &format!("SET synchronous_commit = off; INSERT INTO public.inbox VALUES ('billing', '{id}'); RESET ALL")).await;
        assert!(!billing(&app, id, id, noting()).await.unwrap().is_applied());
    }
    // Dead letters: without an id, and the same one with an id twice.
    let (broker, unwanted) = (Memory::new(), new_id());
    broker.publish(Message::new("orders", "{}"));
    for _ in 0..2 {
        let mut message = order(unwanted, "{}");
        "refunds".clone_into(&mut message.topic);
        broker.publish(message);
    }
    let dispatcher = Dispatcher::builder(&app).only(["billing"]).state(noting().0).build().await.unwrap();
    let running = serve(dispatcher, &broker, intake());
    running.drain(&broker).await;
    running.stop().await.unwrap();
    assert_eq!(broker.counts().dead_lettered, 3);
    assert!(letters(&owner).await.len() >= 2);
    Inbox::new(&app).migrate().await.expect_err("it owns nothing");
    role.drop(app).await;
}

#[tokio::test]
async fn a_role_without_them_is_refused_at_the_start_and_told_what_it_needs() {
    for (name, grants) in
        [("select", ["SELECT ON public.inbox"]), ("insert", ["INSERT ON public.inbox"]), ("none", ["USAGE ON SCHEMA public"])]
    {
        let (_owner, app, role) = with_role(name, &grants).await;
        let refused = Inbox::new(&app).verify().await.unwrap_err();
        assert!(matches!(refused, ProcessError::Unsound(_)), "{name}: {refused:?}");
        assert!(refused.to_string().contains("the role needs USAGE on the schema and SELECT, INSERT on the table"), "{name}: {refused}");
        role.drop(app).await;
    }
}

#[tokio::test]
async fn update_is_needed_for_replies_only() {
    let (owner, app, role) = with_role("reply", &[GRANTS[0], GRANTS[1]]).await;
    let id = new_id();
    let _ = billing(&app, id, id, noting()).await.unwrap();
    assert_once(&owner, "billing", id).await;
    let refused = answering(&app, id, id, script(|_, _| Box::pin(async { Ok(()) }))).await.unwrap_err();
    assert!(refused.to_string().contains("permission denied"), "{refused}");
    assert_untouched(&owner, "answering", id).await;
    role.drop(app).await;
}

#[tokio::test]
async fn a_dead_letter_that_may_not_be_written_keeps_the_message_unacked() {
    let (owner, app, role) = with_role("letters", &[GRANTS[0], GRANTS[1]]).await;
    let broker = Memory::new();
    broker.publish(Message::new("orders", "{}"));
    let dispatcher = Dispatcher::builder(&app).only(["billing"]).state(noting().0).build().await.unwrap();
    let failures = dispatch_one(&dispatcher, &broker).await;
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(failures[0].contains("permission denied"), "{failures:?}");
    assert!(letters(&owner).await.is_empty());
    role.drop(app).await;
}
