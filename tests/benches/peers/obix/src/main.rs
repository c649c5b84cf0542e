//! `obix` as its tests do it: a row and a job in one transaction, and a job handler that has the effect. Its schema is
//! the migration of that version, copied as its README says; the one of `job` comes with the crate.

#[path = "../../rounds.rs"]
mod rounds;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::ensure;
use job::{IncludeMigrations, JobSvcConfig, JobType, Jobs};
use obix::{Inbox, InboxAttempt, InboxConfig, InboxEvent, InboxHandler, InboxResult};
use rounds::{EFFECT, LEDGER, Order, Queue};
use sqlx::{PgPool, postgres::PgPoolOptions};
use tokio::{sync::Notify, task::JoinSet};
use uuid::Uuid;

/// How many have been applied, and somebody who waits for that.
#[derive(Default)]
struct Applied {
    count: AtomicUsize,
    one_more: Notify,
}

struct Ledger {
    pool: PgPool,
    applied: Arc<Applied>,
}

impl InboxHandler for Ledger {
    async fn handle(&self, event: &InboxEvent, _: InboxAttempt) -> Result<InboxResult, Box<dyn std::error::Error + Send + Sync>> {
        let order: Order = event.payload()?;
        let id: Uuid = event.idempotency_key.as_deref().ok_or("an event without its key")?.parse()?;
        sqlx::query(EFFECT).bind(id).bind(order.amount_cents).execute(&self.pool).await?;
        self.applied.count.fetch_add(1, Ordering::SeqCst);
        self.applied.one_more.notify_one();
        Ok(InboxResult::Complete)
    }
}

async fn run(inbox: &Inbox, workers: u32, queue: &Queue) -> anyhow::Result<()> {
    let mut tasks = JoinSet::new();
    for _ in 0..workers {
        let (inbox, queue) = (inbox.clone(), queue.clone());
        tasks.spawn(async move {
            while let Some((id, payload)) = queue.next() {
                let order: Order = serde_json::from_slice(&payload)?;
                let queued = inbox.persist_and_queue_job(id.to_string(), order).await?;
                ensure!(queued.did_execute(), "{id} is fresh, and was taken for a duplicate");
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
    // As many workers queue. How many jobs run at once is left to `job`, which starts none without a free connection: with
    // one at a time, on fewer connections, it was seen slower.
    let connections = 9 + workers;
    let pool = PgPoolOptions::new().max_connections(connections).min_connections(connections).connect(&url).await?;
    sqlx::raw_sql(LEDGER).execute(&pool).await?;
    sqlx::migrate!("./migrations").include_job_migrations().run(&pool).await?;

    let mut jobs = Jobs::init(JobSvcConfig::builder().pool(pool.clone()).build()?).await?;
    let applied = Arc::<Applied>::default();
    let ledger = Ledger { pool: pool.clone(), applied: Arc::clone(&applied) };
    let inbox: Inbox = Inbox::new(&pool, &mut jobs, InboxConfig::new(JobType::new("bench")), ledger);
    jobs.start_poll().await?;

    rounds::serve(async |queue, messages| {
        let until = applied.count.load(Ordering::SeqCst) + messages;
        run(&inbox, workers, &queue).await?;
        while applied.count.load(Ordering::SeqCst) < until {
            let wait = tokio::time::timeout(Duration::from_secs(60), applied.one_more.notified()).await;
            ensure!(wait.is_ok(), "no job was run for a minute, and {} are left", until - applied.count.load(Ordering::SeqCst));
        }
        Ok(())
    })
    .await
}
