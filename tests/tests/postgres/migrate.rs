//! B15: the schema is ours alone, next to whatever the application keeps, and any number of processes may bring it up.

use std::borrow::Cow;

use inbox_runtime::Inbox;
use inbox_tests::database::{bare_postgres, postgres_pool};
use sqlx::{
    PgPool, SqlSafeStr,
    migrate::{Migration, MigrationType, Migrator},
};

use super::support::*;

/// What `sqlx::migrate!` makes of an application's folder: its version is the same as ours.
fn application() -> Migrator {
    let create = Migration::new(1, Cow::Borrowed("shop"), MigrationType::Simple, "CREATE TABLE shop (id bigint)".into_sql_str(), false);
    Migrator { migrations: Cow::Owned(vec![create]), ..Migrator::DEFAULT }
}

async fn works(pool: &PgPool) {
    let id = new_id();
    assert!(shipping(pool, id, id).await.unwrap().is_applied());
    assert_once(pool, "shipping", id).await;
    assert!(yes(pool, "SELECT count(*) = 1 FROM _sqlx_migrations").await, "the application's record is its own");
    assert!(yes(pool, "SELECT count(*) = 1 FROM public.inbox_migrations").await);
}

#[tokio::test]
async fn b15_the_application_migrates_before_or_after_and_boots_twice() {
    for ours_first in [true, false] {
        let pool = postgres_pool(bare_postgres().await, 2).await;
        let inbox = Inbox::new(&pool);
        for _boot in 0..2 {
            if ours_first {
                inbox.migrate().await.unwrap();
                application().run(&pool).await.unwrap();
            } else {
                application().run(&pool).await.unwrap();
                inbox.migrate().await.unwrap();
            }
        }
        works(&pool).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b15_ten_processes_migrate_at_once() {
    let options = bare_postgres().await;
    let mut boots = Vec::new();
    for _ in 0..10 {
        let options = options.clone();
        boots.push(tokio::spawn(async move {
            let pool = postgres_pool(options, 1).await;
            Inbox::builder(pool.clone()).schema("inboxes").build().unwrap().migrate().await?;
            Inbox::new(&pool).migrate().await?;
            application().run(&pool).await.expect("the application's own");
            Ok::<_, inbox_runtime::MigrateError>(())
        }));
    }
    for boot in boots {
        boot.await.unwrap().unwrap();
    }
    let pool = postgres_pool(options, 2).await;
    works(&pool).await;
    assert!(yes(&pool, "SELECT count(*) = 1 FROM inboxes.inbox_migrations").await);
}

#[tokio::test]
async fn a_migration_that_cannot_be_applied_leaves_nothing() {
    let pool = postgres_pool(bare_postgres().await, 1).await;
    // In the way of the second table.
    run(&pool, "CREATE TABLE inbox_dead_letter ()").await;
    Inbox::new(&pool).migrate().await.unwrap_err();
    assert!(yes(&pool, "SELECT to_regclass('public.inbox') IS NULL AND to_regclass('public.inbox_migrations') IS NULL").await);
    run(&pool, "DROP TABLE inbox_dead_letter").await;
    Inbox::new(&pool).migrate().await.unwrap();
}

#[tokio::test]
async fn a_record_that_is_newer_or_edited_is_refused() {
    let pool = postgres_pool(bare_postgres().await, 1).await;
    Inbox::new(&pool).migrate().await.unwrap();
    run(&pool, "UPDATE public.inbox_migrations SET checksum = 'edited'").await;
    let edited = Inbox::new(&pool).migrate().await.unwrap_err();
    assert!(edited.to_string().contains("was its file edited"), "{edited}");
    run(&pool, "DELETE FROM public.inbox_migrations; INSERT INTO public.inbox_migrations VALUES (9999, 'later', 'x')").await;
    let newer = Inbox::new(&pool).migrate().await.unwrap_err();
    assert!(newer.to_string().contains("update the crate"), "{newer}");
}

#[tokio::test]
async fn the_shipped_file_applied_by_hand_makes_the_same_inbox() {
    let pool = postgres_pool(bare_postgres().await, 1).await;
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../migrations/postgres/0001_inbox.sql");
    run(&pool, &std::fs::read_to_string(file).unwrap()).await;
    let id = new_id();
    assert!(shipping(&pool, id, id).await.unwrap().is_applied());
    assert_once(&pool, "shipping", id).await;
}
