//! The consumers: one effect, and whatever the plan has for this attempt.

use std::{panic::resume_unwind, sync::Arc, time::Duration};

use inbox_runtime::{Json, MessageId, State, idempotent_consumer};
use sqlx::{Postgres, Sqlite, Transaction, query, query_scalar, raw_sql};
use tokio::time::sleep;

use crate::{
    field::Side,
    plan::{Act, Payment, Plan},
};

/// Far longer than a body may run.
const LONG: Duration = Duration::from_secs(30);

/// The application name of the sessions that may be killed.
pub(crate) const VICTIM: &str = "hostile worker";

#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("as planned")]
    Planned,
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Without the panic hook, which would print a thousand of them.
fn planned_panic() -> ! {
    resume_unwind(Box::new("as planned"))
}

#[idempotent_consumer(name = "hostile.postgres", topic = "hostile")]
async fn postgres(
    tx: &mut Transaction<'_, Postgres>,
    id: MessageId,
    State(plan): State<Arc<Plan>>,
    State(side): State<Side<Postgres>>,
    Json(payment): Json<Payment>,
) -> Result<(), BodyError> {
    let act = plan.next(id);
    if act == Act::FailEarly {
        return Err(BodyError::Planned);
    }
    let credit = query("UPDATE accounts SET balance_cents = balance_cents + $1 WHERE id = $2");
    credit.bind(payment.amount).bind(payment.account).execute(&mut **tx).await?;
    query("INSERT INTO applied (consumer, message_id) VALUES ($1, $2)")
        .bind(postgres::NAME)
        .bind(id.to_string())
        .execute(&mut **tx)
        .await?;
    match act {
        Act::Succeed | Act::FailEarly => {}
        Act::Slow(time) => sleep(time).await,
        Act::Fail => return Err(BodyError::Planned),
        Act::Panic => planned_panic(),
        Act::Swallow => drop(query("SELECT 1 / 0").execute(&mut **tx).await),
        Act::Hang => sleep(LONG).await,
        Act::HangInSql => drop(query("SELECT pg_sleep(30)").execute(&mut **tx).await),
        Act::KillOwn => {
            query("SELECT pg_terminate_backend(pg_backend_pid())").execute(&mut **tx).await?;
        }
        Act::KillOwnQuietly => drop(query("SELECT pg_terminate_backend(pg_backend_pid())").execute(&mut **tx).await),
        Act::KillSoon(after) => {
            let pid: i32 = query_scalar("SELECT pg_backend_pid()").fetch_one(&mut **tx).await?;
            tokio::spawn(async move {
                sleep(after).await;
                query("SELECT pg_terminate_backend($1)").bind(pid).execute(&side.0).await
            });
        }
        Act::KillOther => {
            let kill = "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity WHERE application_name = $1 \
                        AND datname = current_database() AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1) victim";
            query(kill).bind(VICTIM).execute(&mut **tx).await?;
        }
        Act::Rollback => {
            raw_sql("ROLLBACK").execute(&mut **tx).await?;
        }
        Act::Reopen => {
            raw_sql("ROLLBACK; BEGIN").execute(&mut **tx).await?;
        }
        Act::Commit => {
            raw_sql("COMMIT").execute(&mut **tx).await?;
        }
    }
    Ok(())
}

/// SQLite has no session to kill: those attempts fail instead.
#[idempotent_consumer(name = "hostile.sqlite", topic = "hostile")]
async fn sqlite(
    tx: &mut Transaction<'_, Sqlite>,
    id: MessageId,
    State(plan): State<Arc<Plan>>,
    Json(payment): Json<Payment>,
) -> Result<(), BodyError> {
    const ENDLESS: &str = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    let act = plan.next(id);
    if act == Act::FailEarly {
        return Err(BodyError::Planned);
    }
    let credit = query("UPDATE accounts SET balance_cents = balance_cents + ?1 WHERE id = ?2");
    credit.bind(payment.amount).bind(payment.account).execute(&mut **tx).await?;
    query("INSERT INTO applied (consumer, message_id) VALUES (?1, ?2)").bind(sqlite::NAME).bind(id.to_string()).execute(&mut **tx).await?;
    match act {
        Act::Succeed | Act::FailEarly => {}
        Act::Slow(time) => sleep(time).await,
        Act::Panic => planned_panic(),
        // Here the transaction goes on without the failed statement.
        Act::Swallow => drop(query("INSERT INTO accounts (id) VALUES (?1)").bind(payment.account).execute(&mut **tx).await),
        Act::Hang => sleep(LONG).await,
        Act::HangInSql => drop(query(ENDLESS).execute(&mut **tx).await),
        Act::Fail | Act::KillOwn | Act::KillOwnQuietly | Act::KillSoon(_) | Act::KillOther => return Err(BodyError::Planned),
        Act::Rollback => {
            raw_sql("ROLLBACK").execute(&mut **tx).await?;
        }
        Act::Reopen => {
            raw_sql("ROLLBACK; BEGIN").execute(&mut **tx).await?;
        }
        Act::Commit => {
            raw_sql("COMMIT").execute(&mut **tx).await?;
        }
    }
    Ok(())
}
