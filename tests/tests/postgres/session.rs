//! What a body leaves in its session does not meet the next one: a pool of one connection.

use inbox_runtime::{Inbox, Outcome, State};
use inbox_tests::database::{bare_postgres, postgres_pool, postgres_with};
use sqlx::{AssertSqlSafe, PgPool, Row};

use super::support::*;

/// Leaves it behind, in each way that a transaction may end.
async fn leave(pool: &PgPool, statement: &'static str) {
    let leaving = script(move |tx, id| {
        Box::pin(async move {
            note(tx, "billing", id).await?;
            raw(tx, statement).await
        })
    });
    let id = new_id();
    assert_eq!(billing(pool, id, id, leaving).await.unwrap(), Outcome::Applied(()), "{statement}");
    assert_once(pool, "billing", id).await;
}

/// Asked by the next body.
async fn next_sees(pool: &PgPool, what: &'static str, expected: &'static str) {
    let id = new_id();
    let asking = script(move |tx, id| {
        Box::pin(async move {
            let row = sqlx::raw_sql(AssertSqlSafe(what.to_owned())).fetch_one(&mut **tx).await?;
            assert_eq!(row.try_get::<String, _>(0)?, expected, "{what}");
            Ok(note(tx, "billing", id).await?)
        })
    });
    assert_eq!(billing(pool, id, id, asking).await.unwrap(), Outcome::Applied(()), "{what}");
    assert_once(pool, "billing", id).await;
}

#[tokio::test]
async fn a_role_or_a_setting_of_one_body_does_not_meet_the_next() {
    let pool = postgres_with(1).await;
    let me: &'static str = sqlx::query_scalar::<_, String>("SELECT current_user::text").fetch_one(&pool).await.unwrap().leak();
    for (leak, question, expected) in [
        ("SET ROLE pg_monitor", "SELECT current_user::text", me),
        ("SET SESSION AUTHORIZATION pg_monitor", "SELECT session_user::text", me),
        ("SET search_path = pg_temp", "SHOW search_path", "\"$user\", public"),
        ("SET statement_timeout = '1ms'; SET work_mem = '64kB'", "SHOW statement_timeout", "0"),
        ("SET my.tenant = '7'", "SELECT COALESCE(NULLIF(current_setting('my.tenant', true), ''), 'none')", "none"),
        ("SET default_transaction_read_only = on", "SHOW transaction_read_only", "off"),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SHOW transaction_isolation", "read committed"),
    ] {
        leave(&pool, leak).await;
        next_sees(&pool, question, expected).await;
    }
}

#[tokio::test]
async fn a_role_under_row_security_does_not_hide_rows_from_the_next_body() {
    let pool = postgres_with(1).await;
    run(&pool, "ALTER TABLE accounts ENABLE ROW LEVEL SECURITY").await;
    leave(&pool, "SET ROLE pg_monitor").await;
    let id = new_id();
    let crediting = script(|tx, id| {
        Box::pin(async move {
            let update = sqlx::query("UPDATE accounts SET balance_cents = 5 WHERE id = 1").execute(&mut **tx).await?;
            assert_eq!(update.rows_affected(), 1);
            Ok(note(tx, "billing", id).await?)
        })
    });
    let _ = billing(&pool, id, id, crediting).await.unwrap();
    assert!(yes(&pool, "SELECT balance_cents = 5 FROM accounts WHERE id = 1").await);
}

#[tokio::test]
async fn temporary_tables_and_advisory_locks_do_not_meet_the_next_body() {
    let pool = postgres_with(1).await;
    leave(&pool, "CREATE TEMPORARY TABLE inbox (LIKE public.inbox INCLUDING ALL)").await;
    leave(&pool, "CREATE TEMPORARY TABLE applied (consumer text, message_id text)").await;
    next_sees(&pool, "SELECT count(*)::text FROM pg_class WHERE relpersistence = 't' AND relkind = 'r'", "0").await;
    leave(&pool, "SELECT pg_advisory_lock(7)").await;
    let free = "SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()";
    next_sees(&pool, free, "0").await;
}

/// A statement that sqlx prepares once per connection and keeps.
fn cached() -> State<Script> {
    script(|tx, id| {
        Box::pin(async move {
            let balance: i64 =
                sqlx::query_scalar("SELECT balance_cents FROM accounts WHERE id = $1").bind(1_i64).fetch_one(&mut **tx).await?;
            assert_eq!(balance, 0);
            Ok(note(tx, "billing", id).await?)
        })
    })
}

#[tokio::test]
async fn statements_that_one_body_deallocates_are_not_missed_by_the_next() {
    let pool = postgres_with(1).await;
    for leak in ["DEALLOCATE ALL", "DEALLOCATE ALL; PREPARE mine AS SELECT 1"] {
        let warm = new_id();
        let _ = billing(&pool, warm, warm, cached()).await.unwrap();
        leave(&pool, leak).await;
        let id = new_id();
        assert_eq!(billing(&pool, id, id, cached()).await.unwrap(), Outcome::Applied(()), "{leak}");
        assert_once(&pool, "billing", id).await;
    }
}

#[tokio::test]
async fn what_a_failed_body_left_does_not_meet_the_next_either() {
    let pool = postgres_with(1).await;
    let warm = new_id();
    let _ = billing(&pool, warm, warm, cached()).await.unwrap();
    let failing = script(|tx, _| {
        Box::pin(async move {
            // Neither is undone by a rollback.
            raw(tx, "SELECT pg_advisory_lock(7); DEALLOCATE ALL").await?;
            Err("no stock".into())
        })
    });
    let id = new_id();
    billing(&pool, id, id, failing).await.unwrap_err();
    next_sees(&pool, "SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()", "0").await;
    let id = new_id();
    assert_eq!(billing(&pool, id, id, cached()).await.unwrap(), Outcome::Applied(()));
}

#[tokio::test]
async fn settings_of_the_connect_options_stay() {
    let pool = postgres_pool(bare_postgres().await.options([("application_name", "orders"), ("statement_timeout", "60s")]), 1).await;
    Inbox::new(&pool).migrate().await.unwrap();
    leave(&pool, "SET application_name = 'mine'; SET statement_timeout = 0").await;
    next_sees(&pool, "SHOW application_name", "orders").await;
    next_sees(&pool, "SHOW statement_timeout", "1min").await;
}

#[tokio::test]
async fn a_connection_is_kept_and_not_opened_anew_for_each_message() {
    let pool = postgres_with(1).await;
    let first: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&pool).await.unwrap();
    for _ in 0..5 {
        let id = new_id();
        let _ = billing(&pool, id, id, cached()).await.unwrap();
        let _ = billing(&pool, id, id, cached()).await.unwrap();
        let failing = new_id();
        billing(&pool, failing, failing, script(|_, _| Box::pin(async { Err("no stock".into()) }))).await.unwrap_err();
    }
    let last: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&pool).await.unwrap();
    assert_eq!(first, last);
}

#[tokio::test]
async fn cursors_prepared_statements_and_channels_do_not_meet_the_next_body() {
    for leak in ["DECLARE c CURSOR WITH HOLD FOR SELECT 1", "PREPARE p AS SELECT 1", "LISTEN orders"] {
        let pool = postgres_with(1).await;
        for _ in 0..3 {
            // Each of the first two fails where its own leftover is met.
            leave(&pool, leak).await;
        }
        let channels: Vec<String> = sqlx::query_scalar("SELECT pg_listening_channels()").fetch_all(&pool).await.unwrap();
        assert!(channels.is_empty(), "{leak}: {channels:?}");
    }
}
