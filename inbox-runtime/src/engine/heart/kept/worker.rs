use std::{collections::VecDeque, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use sqlx::pool::PoolConnection;
use tokio::time::sleep;

use super::{
    super::{
        attempt::{Keep, put_back},
        inbox::Inbox,
        job::Job,
        process::Work,
    },
    between::{Between, Disk, DiskOf},
    desk::Desk,
    queue::Queue,
    session::Session,
};
use crate::{
    engine::contract::database::InboxDatabase,
    vocabulary::{backoff::Backoff, error::ProcessError},
};

/// Before a session is opened after one that could not be.
const REOPEN: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));

/// Works off a queue until it is closed and empty, on a session of its own.
///
/// What a body leaves to be dropped is dropped here, and may panic: then its message is given up, which its caller is told, and the worker goes on.
pub(crate) async fn worker<DB: InboxDatabase, W: Work<DB>>(inbox: Inbox<DB>, queue: Arc<Queue<Job<DB, W>>>, disk: DiskOf<DB, W>) {
    while AssertUnwindSafe(work_off(&inbox, &queue, &disk)).catch_unwind().await.is_err() {
        tracing::error!("a worker panicked and starts again");
    }
}

async fn work_off<DB: InboxDatabase, W: Work<DB>>(inbox: &Inbox<DB>, queue: &Queue<Job<DB, W>>, disk: &DiskOf<DB, W>) {
    let mut at_hand = VecDeque::new();
    let (mut failed, mut pause): (u32, Duration) = (0, Duration::ZERO);
    loop {
        // Of what is at hand; a session that was lost meanwhile does not shorten it.
        sleep(std::mem::take(&mut pause)).await;
        if at_hand.is_empty() {
            let Some(job) = queue.pop().await else { return };
            at_hand.push_back(job);
        }
        match inbox.pool().acquire().await {
            Ok(conn) => {
                failed = 0;
                serve(inbox, conn, &mut at_hand, &mut pause, queue, disk).await;
            }
            Err(error) => {
                failed = failed.saturating_add(1);
                tracing::warn!(%error, failed, "a worker has no connection to the database");
                // One of them hears of it now; the others are tried again.
                pause = REOPEN.after(failed);
                if let Some(job) = at_hand.pop_front()
                    && let Some((job, longer)) = job.judge(Err(ProcessError::Database(error)))
                {
                    at_hand.push_front(job);
                    pause = pause.max(longer);
                }
            }
        }
    }
}

/// One session, until it breaks, is old, or the queue is done. What could not be finished stays at hand.
async fn serve<DB: InboxDatabase, W: Work<DB>>(
    inbox: &Inbox<DB>,
    mut conn: PoolConnection<DB>,
    at_hand: &mut VecDeque<Job<DB, W>>,
    pause: &mut Duration,
    queue: &Queue<Job<DB, W>>,
    disk: &DiskOf<DB, W>,
) {
    // Where a panic comes between, nobody else is to have it.
    conn.close_on_drop();
    let open = Counted::new();
    let mut between = None;
    if matches!(disk, Disk::Between(())) {
        match Between::begin(inbox, &mut conn).await {
            Ok(ready) => between = Some(ready),
            Err(error) => tracing::warn!(%error, "a worker cannot flush; each of its commits waits for the disk"),
        }
    }
    let disk = match (disk, &mut between) {
        (Disk::Aside(flusher), _) => Disk::Aside(flusher),
        (_, Some(between)) => Disk::Between(between),
        _ => Disk::Commit,
    };
    let mut whole = match Session::begin(inbox, &mut conn).await {
        Ok(session) => Desk { session, at_hand, queue, disk, pause }.work().await,
        Err(error) => {
            tracing::warn!(%error, "a worker could not begin on its connection");
            if let Some((job, longer)) = at_hand.pop_front().and_then(|job| job.judge(Err(ProcessError::Database(error)))) {
                at_hand.push_front(job);
                *pause = longer;
            }
            false
        }
    };
    if let Some(between) = between {
        whole = between.end(inbox, &mut conn, whole, at_hand).await;
    }
    drop(open);
    if !whole {
        metrics::counter!("inbox_worker_sessions_lost_total").increment(1);
    }
    put_back(inbox, conn, if whole { Keep::Untouched } else { Keep::Broken }).await;
}

/// A session in the metrics, however it ends.
struct Counted;

impl Counted {
    fn new() -> Self {
        metrics::gauge!("inbox_worker_sessions").increment(1.0);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        metrics::gauge!("inbox_worker_sessions").decrement(1.0);
    }
}
