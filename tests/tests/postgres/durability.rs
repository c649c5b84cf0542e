//! What is told or acked is on disk, whoever's setting says otherwise.

use inbox_runtime::{Inbox, Outcome};
use inbox_tests::database::{bare_postgres, postgres_pool, postgres_with};
use sqlx::{Connection, PgConnection, PgPool};

use super::support::*;

async fn flushed(pool: &PgPool, lsn: &str) -> bool {
    let reached = sqlx::query_scalar("SELECT pg_current_wal_flush_lsn() >= $1::pg_lsn");
    reached.bind(lsn).fetch_one(pool).await.unwrap()
}

/// A row that somebody committed without waiting for the disk, and where the log stood after it. The WAL writer sleeps
/// for up to 10 s on this server only if told so, so it is asked until one is caught that is not flushed yet.
async fn commit_unflushed(pool: &PgPool, consumer: &str) -> (inbox_runtime::MessageId, String) {
    let mut other = PgConnection::connect_with(&pool.connect_options()).await.unwrap();
    run(&mut other, "SET synchronous_commit = off").await;
    for _ in 0..200 {
        let id = new_id();
        let insert = sqlx::query("INSERT INTO public.inbox (consumer_name, message_id) VALUES ($1, $2)").bind(consumer).bind(id.as_uuid());
        insert.execute(&mut other).await.unwrap();
        let (lsn, open): (String, bool) =
            sqlx::query_as("SELECT l::text, pg_current_wal_flush_lsn() < l FROM pg_current_wal_insert_lsn() l")
                .fetch_one(&mut other)
                .await
                .unwrap();
        if open {
            return (id, lsn);
        }
    }
    panic!("every asynchronous commit was flushed at once");
}

#[tokio::test]
async fn a_duplicate_is_told_only_once_its_row_is_on_disk() {
    let pool = postgres_with(2).await;
    Inbox::new(&pool).verify().await.unwrap();
    for _ in 0..20 {
        let (id, lsn) = commit_unflushed(&pool, "billing").await;
        assert_eq!(billing(&pool, id, id, noting()).await.unwrap(), Outcome::Duplicate(()));
        assert!(flushed(&pool, &lsn).await, "told before it was durable");
    }
}

#[tokio::test]
async fn a_duplicate_is_durable_even_where_the_role_commits_asynchronously() {
    let pool = postgres_pool(bare_postgres().await.options([("synchronous_commit", "off")]), 2).await;
    Inbox::new(&pool).migrate().await.unwrap();
    for _ in 0..20 {
        let (id, lsn) = commit_unflushed(&pool, "billing").await;
        assert_eq!(billing(&pool, id, id, noting()).await.unwrap(), Outcome::Duplicate(()));
        assert!(flushed(&pool, &lsn).await, "told before it was durable");
    }
}

/// The level that the commit itself saw: a deferred trigger runs within it.
const WITNESS: &str = "CREATE TABLE witness (level text);
    CREATE FUNCTION witness() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN INSERT INTO witness VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER witness AFTER INSERT ON applied DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION witness()";

async fn witnessed(pool: &PgPool) -> Vec<String> {
    sqlx::query_scalar("SELECT level FROM witness").fetch_all(pool).await.unwrap()
}

#[tokio::test]
async fn neither_a_body_nor_a_role_decides_whether_the_commit_waits() {
    for setting in
        ["SET synchronous_commit = off", "SET LOCAL synchronous_commit = off", "SELECT set_config('synchronous_commit', 'off', true)"]
    {
        let pool = postgres_pool(bare_postgres().await.options([("synchronous_commit", "off")]), 2).await;
        Inbox::new(&pool).migrate().await.unwrap();
        run(&pool, WITNESS).await;
        let id = new_id();
        let careless = script(move |tx, id| {
            Box::pin(async move {
                raw(tx, setting).await?;
                Ok(note(tx, "billing", id).await?)
            })
        });
        assert_eq!(billing(&pool, id, id, careless).await.unwrap(), Outcome::Applied(()));
        assert_eq!(witnessed(&pool).await, ["on"], "{setting}");
        assert_once(&pool, "billing", id).await;
    }
}

#[tokio::test]
async fn a_stricter_level_is_used_when_asked_for() {
    let (pool, id) = (postgres_with(2).await, new_id());
    run(&pool, WITNESS).await;
    let inbox = Inbox::builder(pool.clone()).commit_level(inbox_runtime::CommitLevel::RemoteApply).build().unwrap();
    let _ = billing(&inbox, id, id, noting()).await.unwrap();
    assert_eq!(witnessed(&pool).await, ["remote_apply"]);
}

#[tokio::test]
async fn a_recorded_reply_does_not_undo_the_level() {
    let pool = postgres_pool(bare_postgres().await.options([("synchronous_commit", "off")]), 2).await;
    Inbox::new(&pool).migrate().await.unwrap();
    run(&pool, WITNESS).await;
    let id = new_id();
    assert!(answering(&pool, id, id, script(|tx, _| Box::pin(raw(tx, "SET synchronous_commit = off")))).await.unwrap().is_applied());
    assert_eq!(witnessed(&pool).await, ["on"]);
}

#[tokio::test]
async fn a_dead_letter_is_on_disk_before_it_is_acked() {
    let pool = postgres_pool(bare_postgres().await.options([("synchronous_commit", "off")]), 2).await;
    Inbox::new(&pool).migrate().await.unwrap();
    run(&pool, &WITNESS.replace("ON applied", "ON public.inbox_dead_letter")).await;
    let broker = inbox_runtime::broker::Memory::new();
    broker.publish(inbox_runtime::Message::new("orders", "{}"));
    let running = serve(dispatcher(&pool, noting(), &["billing"]).await, &broker, intake());
    running.drain(&broker).await;
    running.stop().await.unwrap();
    assert_eq!(broker.counts().dead_lettered, 1);
    assert_eq!(witnessed(&pool).await, ["on"]);
}
