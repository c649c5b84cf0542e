//! `nainbox-pgsql` as its README says: claim and effect in the ambient transaction of `PgInbox::process`.

#[path = "../../rounds.rs"]
mod rounds;

use nainbox_pgsql::{InboxProcess, PgInbox};
use natx_pgsql::datasource::{DataSourceConfig, build_pool, probe};
use rounds::{EFFECT, LEDGER, Order, Queue};
use tokio::task::JoinSet;
use uuid::Uuid;

async fn handle(inbox: &PgInbox, id: Uuid, payload: &[u8]) -> anyhow::Result<()> {
    let effect = || async {
        let order: Order = serde_json::from_slice(payload)?;
        let mut connection = natx_pgsql::mandatory_conn().await?;
        sqlx::query(EFFECT).bind(id).bind(order.amount_cents).execute(connection.as_mut()).await?;
        Ok(())
    };
    match inbox.process("bench", &id.to_string(), effect).await? {
        InboxProcess::Applied(()) => Ok(()),
        InboxProcess::Duplicate => anyhow::bail!("{id} is fresh, and was taken for a duplicate"),
    }
}

async fn run(inbox: &PgInbox, workers: u32, queue: &Queue) -> anyhow::Result<()> {
    let mut tasks = JoinSet::new();
    for _ in 0..workers {
        let (inbox, queue) = (inbox.clone(), queue.clone());
        tasks.spawn(async move {
            while let Some((id, payload)) = queue.next() {
                handle(&inbox, id, &payload).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    Ok(())
}

#[tokio::main(worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    let (url, workers) = rounds::arguments()?;
    // As large as the pool of the side by hand.
    let config = DataSourceConfig {
        url,
        max_connections: workers,
        min_connections: workers,
        acquire_timeout_ms: 30_000,
        connect_timeout_ms: 10_000,
        probe_on_start: true,
    };
    probe(&config).await?;
    let pool = build_pool(&config)?;
    natx_pgsql::try_init(pool.clone())?;
    PgInbox::ensure_schema().await?;
    sqlx::raw_sql(LEDGER).execute(&pool).await?;
    let inbox = PgInbox::new();
    rounds::serve(async |queue, _| run(&inbox, workers, &queue).await).await
}
