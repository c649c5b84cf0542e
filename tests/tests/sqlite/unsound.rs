//! An inbox that cannot be trusted is refused, with everything that is wrong with it.

use inbox_runtime::{Inbox, Outcome, ProcessError};
use inbox_tests::database::sqlite;
use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteSynchronous},
};

use super::support::*;

/// All problems, by a direct call: the body does not run on such a table.
async fn problems(inbox: &Inbox<sqlx::Sqlite>) -> Vec<String> {
    let Err(ProcessError::Unsound(by_verify)) = inbox.verify().await else { panic!("it is trusted") };
    let body = script(|_, _| Box::pin(async { panic!("the body runs") }));
    let Err(ProcessError::Unsound(by_call)) = billing(inbox, new_id(), new_id(), body).await else { panic!("it is used") };
    assert_eq!(by_verify.problems, by_call.problems);
    by_verify.problems.clone()
}

async fn only_problem(pool: &SqlitePool) -> String {
    let mut problems = problems(&Inbox::new(pool)).await;
    let only = problems.pop().expect("a problem");
    assert_eq!(problems, [""; 0], "besides {only}");
    only
}

const COLUMNS: &str = "processed_at TEXT NOT NULL DEFAULT 'now', reply TEXT, payload_hash INTEGER";

#[tokio::test]
async fn a_sound_inbox_is_trusted() {
    let (pool, _dir) = sqlite().await;
    Inbox::new(&pool).verify().await.unwrap();
    assert_eq!(number(&pool, "SELECT count(*) FROM inbox").await, 0, "the probe leaves nothing");
}

#[tokio::test]
async fn a_missing_table_is_refused_and_a_success_after_it_is_remembered() {
    let (pool, _dir) = sqlite().await;
    run(&pool, "DROP TABLE inbox").await;
    let problem = only_problem(&pool).await;
    assert!(problem.contains("there is no table main.\"inbox\"; call `inbox.migrate()`"), "{problem}");
    // A refusal is not remembered.
    run(&pool, &format!("CREATE TABLE inbox (consumer_name TEXT, message_id BLOB, {COLUMNS}, UNIQUE (message_id, consumer_name))")).await;
    Inbox::new(&pool).verify().await.unwrap();
}

#[tokio::test]
async fn a_view_is_refused() {
    let (pool, _dir) = sqlite().await;
    run(&pool, "ALTER TABLE inbox RENAME TO other; CREATE VIEW inbox AS SELECT * FROM other").await;
    let problems = problems(&Inbox::new(&pool)).await;
    assert!(problems.iter().any(|problem| problem.contains("is not a table")), "{problems:?}");
}

#[tokio::test]
async fn triggers_are_refused_temporary_ones_too() {
    for create in ["CREATE TRIGGER swallow BEFORE INSERT ON inbox", "CREATE TEMP TRIGGER swallow BEFORE INSERT ON main.inbox"] {
        let (pool, _dir) = sqlite().await;
        run(&pool, &format!("{create} BEGIN SELECT RAISE(IGNORE); END")).await;
        let problem = only_problem(&pool).await;
        assert!(problem.contains("has a trigger, `swallow`"), "{problem}");
    }
}

#[tokio::test]
async fn only_exactly_the_right_key_is_accepted() {
    let wrong = [
        ("none", String::new(), ""),
        ("too narrow", ", UNIQUE (message_id)".to_owned(), ""),
        ("too wide", ", UNIQUE (consumer_name, message_id, processed_at)".to_owned(), ""),
        ("partial", String::new(), "CREATE UNIQUE INDEX k ON inbox (consumer_name, message_id) WHERE processed_at > 'a'"),
        ("not unique", String::new(), "CREATE INDEX k ON inbox (consumer_name, message_id)"),
        ("an expression", String::new(), "CREATE UNIQUE INDEX k ON inbox (lower(consumer_name), message_id)"),
        ("another collation", String::new(), "CREATE UNIQUE INDEX k ON inbox (consumer_name COLLATE NOCASE, message_id)"),
    ];
    for (what, constraint, index) in wrong {
        let (pool, _dir) = sqlite().await;
        let table = format!("DROP TABLE inbox; CREATE TABLE inbox (consumer_name TEXT, message_id BLOB, {COLUMNS}{constraint})");
        run(&pool, &format!("{table}; {index}")).await;
        let problem = only_problem(&pool).await;
        assert!(problem.contains("no unique key on exactly (consumer_name, message_id), compared as bytes"), "{what}: {problem}");
    }
    // A column's own collation decides its primary key.
    let (pool, _dir) = sqlite().await;
    let key = "PRIMARY KEY (consumer_name, message_id)";
    run(&pool, &format!("DROP TABLE inbox; CREATE TABLE inbox (consumer_name TEXT COLLATE NOCASE, message_id BLOB, {COLUMNS}, {key})"))
        .await;
    assert!(only_problem(&pool).await.contains("compared as bytes"));
}

#[tokio::test]
async fn a_claim_that_cannot_work_is_refused() {
    let (pool, _dir) = sqlite().await;
    run(&pool, "ALTER TABLE inbox ADD COLUMN tenant TEXT CHECK (tenant IS NOT NULL)").await;
    let problem = only_problem(&pool).await;
    assert!(problem.contains("a claim in main.\"inbox\" fails"), "{problem}");
}

#[tokio::test]
async fn a_commit_that_may_not_outlive_a_power_cut_is_refused_unless_told() {
    let (pool, _dir) = sqlite().await;
    let options: SqliteConnectOptions = pool.connect_options().as_ref().clone();
    for (level, accepted) in [
        (SqliteSynchronous::Off, false),
        (SqliteSynchronous::Normal, false),
        (SqliteSynchronous::Full, true),
        (SqliteSynchronous::Extra, true),
    ] {
        let pool = inbox_runtime::sqlite::pool_options().connect_with(options.clone().synchronous(level)).await.unwrap();
        if accepted {
            Inbox::new(&pool).verify().await.unwrap();
            continue;
        }
        let problem = only_problem(&pool).await;
        assert!(problem.contains("`PRAGMA synchronous` is below FULL"), "{problem}");
        let told = Inbox::builder(pool).allow_unsafe_durability(true).build().unwrap();
        told.verify().await.unwrap();
        let id = new_id();
        assert_eq!(call(told.clone(), id, noting()).await.unwrap(), Outcome::Applied(()));
        assert_once(told.pool(), "billing", id).await;
    }
}

#[tokio::test]
async fn a_schema_is_refused_and_a_prefix_works() {
    let ((pool, _dir), id) = (sqlite().await, new_id());
    let schema = Inbox::builder(pool.clone()).schema("billing").build().unwrap();
    let found = problems(&schema).await;
    assert!(found.iter().any(|problem| problem.contains("SQLite has no schemas")), "{found:?}");
    Inbox::builder(pool.clone()).schema("main").build().unwrap().verify().await.unwrap();

    let prefixed = Inbox::builder(pool.clone()).table_prefix("billing_").build().unwrap();
    assert!(problems(&prefixed).await[0].contains("main.\"billing_inbox\""));
    prefixed.migrate().await.unwrap();
    assert_eq!(call(prefixed.clone(), id, noting()).await.unwrap(), Outcome::Applied(()));
    assert_eq!(call(prefixed, id, noting()).await.unwrap(), Outcome::Duplicate(()));
    assert_eq!(number(&pool, "SELECT count(*) FROM billing_inbox").await, 1);
    assert_eq!(number(&pool, "SELECT count(*) FROM inbox").await, 0, "the other inbox knows nothing of it");
}

#[tokio::test]
async fn identifiers_that_would_need_quoting_are_refused() {
    let (pool, _dir) = sqlite().await;
    for bad in ["", "1st", "a b", "a\"; DROP TABLE accounts; --", "ü", "a.b", &"x".repeat(40)] {
        let refused = Inbox::builder(pool.clone()).table_prefix(bad).build().unwrap_err();
        assert_eq!(refused.found, bad);
    }
}

/// A temporary table of that name comes first where a name is not qualified: it would accept a duplicate.
#[tokio::test]
async fn a_temporary_table_named_inbox_is_not_met() {
    let ((pool, _dir), id) = (sqlite().await, new_id());
    run(
        &pool,
        &format!("CREATE TEMP TABLE inbox (consumer_name TEXT, message_id BLOB, {COLUMNS}, PRIMARY KEY (consumer_name, message_id))"),
    )
    .await;
    assert_eq!(billing(&pool, id, id, noting()).await.unwrap(), Outcome::Applied(()));
    assert_eq!(number(&pool, "SELECT count(*) FROM temp.inbox").await, 0);
    run(&pool, "DROP TABLE temp.inbox").await;
    assert_eq!(billing(&pool, id, id, noting()).await.unwrap(), Outcome::Duplicate(()));
    assert_once(&pool, "billing", id).await;
}
