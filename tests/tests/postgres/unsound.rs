//! "No row returned" is a verdict only on a sound table: start-up refuses all others, and says why.

use inbox_runtime::{BuildError, Dispatcher, Inbox, ProcessError};
use inbox_tests::database::{bare_postgres, postgres_pool, postgres_with};
use sqlx::PgPool;

use super::support::*;

const COLUMNS: &str = "processed_at timestamptz NOT NULL DEFAULT now(), reply jsonb, payload_hash bigint";

/// Refused by the dispatcher and by a direct call, before anything ran.
async fn is_refused(pool: &PgPool, because: &str) {
    let built = Dispatcher::builder(&Inbox::builder(pool.clone()).build().unwrap()).only(["shipping"]).build().await;
    match built {
        Err(BuildError::Inbox(ProcessError::Unsound(unsound))) => {
            assert!(unsound.to_string().contains(because), "{because:?} is not in {unsound}");
        }
        other => panic!("{because:?} was accepted: {other:?}"),
    }
    let id = new_id();
    let called = shipping(&Inbox::builder(pool.clone()).build().unwrap(), id, id).await;
    assert!(matches!(called, Err(ProcessError::Unsound(_))), "{because:?}: {called:?}");
    assert!(yes(pool, "SELECT count(*) = 0 FROM applied").await);
}

/// After this change to a sound inbox.
async fn change_is_refused(change: &str, because: &str) {
    let pool = postgres_with(1).await;
    Inbox::builder(pool.clone()).build().unwrap().verify().await.expect("sound before");
    run(&pool, change).await;
    is_refused(&pool, because).await;
}

#[tokio::test]
async fn a_missing_inbox_is_refused() {
    is_refused(&postgres_pool(bare_postgres().await, 1).await, "call `inbox.migrate()`").await;
}

#[tokio::test]
async fn an_unlogged_inbox_is_refused() {
    change_is_refused("ALTER TABLE public.inbox SET UNLOGGED", "not permanent").await;
}

#[tokio::test]
async fn an_inbox_without_its_key_is_refused() {
    let because = "no valid unique key on exactly (consumer_name, message_id)";
    let dropped = "ALTER TABLE public.inbox DROP CONSTRAINT inbox_pkey";
    for key in [
        "SELECT 1".to_owned(),
        "ALTER TABLE public.inbox ADD CONSTRAINT k UNIQUE (consumer_name, message_id) DEFERRABLE".to_owned(),
        "ALTER TABLE public.inbox ADD PRIMARY KEY (consumer_name, message_id) DEFERRABLE INITIALLY DEFERRED".to_owned(),
        "CREATE UNIQUE INDEX k ON public.inbox (consumer_name, message_id) WHERE processed_at > '2020-01-01'".to_owned(),
        "CREATE UNIQUE INDEX k ON public.inbox (lower(consumer_name), message_id)".to_owned(),
        "CREATE UNIQUE INDEX k ON public.inbox (consumer_name, message_id, processed_at)".to_owned(),
        "CREATE UNIQUE INDEX k ON public.inbox (message_id)".to_owned(),
        "CREATE INDEX k ON public.inbox (consumer_name, message_id)".to_owned(),
    ] {
        change_is_refused(&format!("{dropped}; {key}"), because).await;
    }
}

#[tokio::test]
async fn an_inbox_with_an_invalid_key_is_refused() {
    let pool = postgres_with(1).await;
    run(&pool, "ALTER TABLE public.inbox DROP CONSTRAINT inbox_pkey").await;
    let twice = "INSERT INTO public.inbox (consumer_name, message_id) SELECT 'x', '019a0000-0000-7000-8000-000000000001' FROM generate_series(1, 2)";
    run(&pool, twice).await;
    // It fails half way, and leaves an index that enforces nothing.
    let built = sqlx::raw_sql("CREATE UNIQUE INDEX CONCURRENTLY k ON public.inbox (consumer_name, message_id)").execute(&pool).await;
    built.expect_err("there are two equal rows");
    assert!(yes(&pool, "SELECT NOT indisvalid FROM pg_index WHERE indexrelid = 'k'::regclass").await);
    is_refused(&pool, "no valid unique key").await;
}

#[tokio::test]
async fn another_unique_index_that_is_sound_is_accepted() {
    let pool = postgres_with(1).await;
    run(&pool, "ALTER TABLE public.inbox DROP CONSTRAINT inbox_pkey; CREATE UNIQUE INDEX k ON public.inbox (message_id, consumer_name)")
        .await;
    let id = new_id();
    assert!(shipping(&pool, id, id).await.unwrap().is_applied());
    assert!(!shipping(&pool, id, id).await.unwrap().is_applied());
    assert_once(&pool, "shipping", id).await;
}

const SWALLOW: &str = "CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'";

#[tokio::test]
async fn an_inbox_with_a_trigger_is_refused() {
    let trigger = "CREATE TRIGGER t BEFORE INSERT ON public.inbox FOR EACH ROW EXECUTE FUNCTION swallow()";
    change_is_refused(&format!("{SWALLOW}; {trigger}"), "has triggers").await;
}

#[tokio::test]
async fn an_inbox_with_a_rule_is_refused() {
    change_is_refused("CREATE RULE r AS ON INSERT TO public.inbox DO INSTEAD NOTHING", "rewrite rule").await;
}

#[tokio::test]
async fn an_inbox_with_row_security_is_refused() {
    change_is_refused("ALTER TABLE public.inbox ENABLE ROW LEVEL SECURITY", "row level security").await;
}

async fn instead(table: &str) -> PgPool {
    let pool = postgres_with(1).await;
    run(&pool, &format!("DROP TABLE public.inbox; {table}")).await;
    pool
}

#[tokio::test]
async fn a_view_in_the_inbox_s_place_is_refused() {
    let view = "CREATE TABLE hidden (consumer_name text, message_id uuid); CREATE VIEW public.inbox AS SELECT * FROM hidden";
    is_refused(&instead(view).await, "is not a table").await;
}

#[tokio::test]
async fn an_inbox_with_other_column_types_is_refused() {
    for (name, id) in [("text", "text"), ("varchar(5)", "uuid"), ("char(40)", "uuid")] {
        let table = format!(
            "CREATE TABLE public.inbox (consumer_name {name} NOT NULL, message_id {id} NOT NULL, {COLUMNS}, PRIMARY KEY (consumer_name, message_id))"
        );
        is_refused(&instead(&table).await, "must have `consumer_name text` and `message_id uuid`").await;
    }
}

const CASELESS: &str = "CREATE COLLATION caseless (provider = icu, locale = 'und-u-ks-level2', deterministic = false)";

#[tokio::test]
async fn an_inbox_under_which_two_names_are_equal_is_refused() {
    let column = format!(
        "{CASELESS}; CREATE TABLE public.inbox (consumer_name text COLLATE caseless NOT NULL, message_id uuid NOT NULL, {COLUMNS}, \
         PRIMARY KEY (consumer_name, message_id))"
    );
    is_refused(&instead(&column).await, "nondeterministic collation").await;
    // ON CONFLICT takes any index on the columns, in whatever collation it compares.
    let index = format!("{CASELESS}; CREATE UNIQUE INDEX k ON public.inbox (consumer_name COLLATE caseless, message_id)");
    change_is_refused(&index, "nondeterministic collation").await;
}

fn partitioned(part: &str) -> String {
    format!(
        "CREATE TABLE public.inbox (consumer_name text NOT NULL COLLATE \"C\", message_id uuid NOT NULL, {COLUMNS}, \
         PRIMARY KEY (consumer_name, message_id)) PARTITION BY RANGE (message_id); \
         CREATE TABLE rest PARTITION OF public.inbox DEFAULT; \
         CREATE {part} TABLE part PARTITION OF public.inbox FOR VALUES FROM (MINVALUE) TO ('10000000-0000-0000-0000-000000000000')"
    )
}

#[tokio::test]
async fn a_partitioned_inbox_is_accepted_and_keeps_copies_apart() {
    let pool = instead(&partitioned("")).await;
    let id = new_id();
    assert!(shipping(&pool, id, id).await.unwrap().is_applied());
    assert!(!shipping(&pool, id, id).await.unwrap().is_applied());
    assert_once(&pool, "shipping", id).await;
}

#[tokio::test]
async fn a_partition_that_cannot_be_trusted_is_refused() {
    is_refused(&instead(&partitioned("UNLOGGED")).await, "not permanent").await;
    let trigger = "CREATE TRIGGER t BEFORE INSERT ON part FOR EACH ROW EXECUTE FUNCTION swallow()";
    is_refused(&instead(&format!("{}; {SWALLOW}; {trigger}", partitioned(""))).await, "has triggers").await;
}

#[tokio::test]
async fn a_read_only_session_is_refused() {
    let options = bare_postgres().await;
    Inbox::new(&postgres_pool(options.clone(), 1).await).migrate().await.unwrap();
    is_refused(&postgres_pool(options.options([("default_transaction_read_only", "on")]), 1).await, "read only").await;
}

#[tokio::test]
async fn everything_that_is_wrong_is_said_at_once() {
    let pool = postgres_with(1).await;
    run(&pool, "ALTER TABLE public.inbox SET UNLOGGED; ALTER TABLE public.inbox ENABLE ROW LEVEL SECURITY").await;
    is_refused(&pool, "not permanent").await;
    is_refused(&pool, "row level security").await;
}

#[tokio::test]
async fn the_probe_of_a_sound_inbox_leaves_nothing() {
    let pool = postgres_with(1).await;
    Inbox::new(&pool).verify().await.unwrap();
    assert!(yes(&pool, "SELECT count(*) = 0 FROM public.inbox").await);
    assert!(yes(&pool, "SELECT pg_current_xact_id_if_assigned() IS NULL").await);
}
