//! The transaction that a body gets is sqlx's own, and behaves like it.

use futures_util::TryStreamExt;
use inbox_runtime::{MessageId, Outcome, ProcessError, State, idempotent_consumer};
use inbox_tests::database::{bare_postgres, postgres_with};
use sqlx::{Acquire, Connection, Executor, PgExecutor, PgPool, PgTransaction, Postgres, Row};

use super::support::*;

type Tx<'t> = sqlx::Transaction<'t, Postgres>;

/// A helper as applications have them, over anything that runs a statement.
async fn credit<'e, E: PgExecutor<'e>>(on: E, account: i64, cents: i64) -> Result<(), sqlx::Error> {
    let update = sqlx::query("UPDATE accounts SET balance_cents = balance_cents + $2 WHERE id = $1");
    update.bind(account).bind(cents).execute(on).await.map(drop)
}

/// And one that wants a transaction of its own, wherever it is called.
async fn credit_both<'a>(on: impl Acquire<'a, Database = Postgres> + Send) -> Result<(), sqlx::Error> {
    let mut tx = on.begin().await?;
    credit(&mut *tx, 1, 10).await?;
    credit(&mut *tx, 2, 10).await?;
    tx.commit().await
}

#[derive(sqlx::FromRow)]
struct Account {
    id: i64,
    balance_cents: i64,
}

#[idempotent_consumer(name = "everything")]
async fn everything(tx: &mut PgTransaction<'_>, id: MessageId) -> Result<(), sqlx::Error> {
    credit(&mut **tx, 1, 1).await?;
    credit_both(&mut **tx).await?;
    credit_both(&mut *tx).await?;
    let mut kept = tx.begin().await?;
    credit(&mut *kept, 3, 5).await?;
    kept.commit().await?;
    let mut undone = tx.begin().await?;
    credit(&mut *undone, 3, 1_000).await?;
    undone.rollback().await?;
    let mut dropped = tx.begin().await?;
    credit(&mut *dropped, 3, 1_000).await?;
    drop(dropped);
    // A failure within a nested transaction is one of its own.
    let mut failing = tx.begin().await?;
    failing.execute("INSERT INTO accounts (id) VALUES (1)").await.expect_err("it is there");
    failing.rollback().await?;
    let accounts: Vec<Account> = sqlx::query_as("SELECT id, balance_cents FROM accounts ORDER BY id").fetch_all(&mut **tx).await?;
    assert_eq!(accounts.iter().map(|a| (a.id, a.balance_cents)).collect::<Vec<_>>(), [(1, 21), (2, 20), (3, 5), (4, 0)]);
    let mut rows = sqlx::query("SELECT generate_series(1, 1000)").fetch(&mut **tx);
    let mut sum = 0;
    while let Some(row) = rows.try_next().await? {
        sum += row.try_get::<i32, _>(0)?;
    }
    drop(rows);
    assert_eq!(sum, 500_500);
    // A stream that is left half read.
    let mut rows = sqlx::query("SELECT generate_series(1, 1000)").fetch(&mut **tx);
    rows.try_next().await?;
    drop(rows);
    note(tx, "everything", id).await
}

#[tokio::test]
async fn a_body_uses_the_transaction_as_it_would_use_sqlx_s() {
    let (pool, id) = (postgres_with(1).await, new_id());
    assert_eq!(everything(&pool, id, id).await.unwrap(), Outcome::Applied(()));
    assert_eq!(everything(&pool, id, id).await.unwrap(), Outcome::Duplicate(()));
    assert_once(&pool, "everything", id).await;
    assert!(yes(&pool, "SELECT array_agg(balance_cents ORDER BY id) = '{21,20,5,0}' FROM accounts").await);
}

#[tokio::test]
async fn the_body_alone_is_a_plain_function_for_unit_tests() {
    let (pool, id) = (postgres_with(1).await, new_id());
    let mut tx = pool.begin().await.unwrap();
    everything::body(&mut tx, id).await.unwrap();
    tx.rollback().await.unwrap();
    assert_untouched(&pool, "everything", id).await;
}

async fn is_clean(pool: &PgPool) {
    // Its pool has one connection: whoever comes next is in no transaction, and its writes stay.
    credit(pool, 4, 1).await.unwrap();
    let mut other = sqlx::PgConnection::connect_with(&pool.connect_options()).await.unwrap();
    assert!(yes(&mut other, "SELECT balance_cents = 1 FROM accounts WHERE id = 4").await, "an autocommitted write was lost");
}

#[expect(clippy::mem_forget, reason = "that is the mistake")]
fn forgetting() -> State<Script> {
    script(|tx: &mut Tx<'_>, id| {
        Box::pin(async move {
            note(tx, "billing", id).await?;
            let mut nested = tx.begin().await?;
            credit(&mut *nested, 1, 1).await?;
            std::mem::forget(nested);
            Ok(())
        })
    })
}

#[tokio::test]
async fn a_forgotten_nested_transaction_is_noticed_and_the_connection_is_clean() {
    // Without our hook on the pool: the heart itself must not need it.
    let options = bare_postgres().await;
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
    inbox_runtime::Inbox::new(&pool).migrate().await.unwrap();
    let id = new_id();
    let failed = billing(&pool, id, id, forgetting()).await.unwrap_err();
    assert!(matches!(failed, ProcessError::NestedTransactionLeft), "{failed:?}");
    is_clean(&pool).await;
    assert_untouched(&pool, "billing", id).await;
    assert!(yes(&pool, "SELECT balance_cents = 0 FROM accounts WHERE id = 1").await);
    assert_eq!(billing(&pool, id, id, noting()).await.unwrap(), Outcome::Applied(()));
    assert_once(&pool, "billing", id).await;
}

#[tokio::test]
async fn a_nested_transaction_that_a_panic_leaves_is_rolled_back() {
    let options = bare_postgres().await;
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
    inbox_runtime::Inbox::new(&pool).migrate().await.unwrap();
    let id = new_id();
    let panicking = script(|tx: &mut Tx<'_>, _| {
        Box::pin(async move {
            let mut nested = tx.begin().await?;
            credit(&mut *nested, 1, 1).await?;
            panic!("a bug")
        })
    });
    assert!(matches!(billing(&pool, id, id, panicking).await, Err(ProcessError::Panicked(_))));
    is_clean(&pool).await;
    assert!(yes(&pool, "SELECT balance_cents = 0 FROM accounts WHERE id = 1").await);
    assert_untouched(&pool, "billing", id).await;
}
