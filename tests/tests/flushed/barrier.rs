//! Nothing is acked before a commit that waits for the disk.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use inbox_runtime::{
    __private::skip_flushes,
    Dispatcher, Durability, Message, Uuid,
    broker::{Memory, Verdict},
};
use inbox_tests::{
    server::Server,
    watched::{Watch, Watched},
};

use super::support::{ALONE, Running, fresh, ledger, publish, until};

#[derive(Default)]
struct Acked(AtomicUsize);

impl Watch for Acked {
    async fn settling(&self, _message: &Message, verdict: Verdict) {
        if verdict == Verdict::Done {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Handles messages while the database is killed again and again. How many were applied not at all, and how many more than once.
async fn survivors(server: &Server) -> (i64, i64) {
    const CRASHES: usize = 4;
    const BETWEEN: usize = 300;
    const MESSAGES: usize = (CRASHES + 1) * BETWEEN;
    let inbox = fresh(server).await;
    let nobody = Dispatcher::builder(&inbox).without_linked().build().await.expect("a dispatcher");
    let (queue, acked) = (Memory::new(), Arc::new(Acked::default()));
    let ids: Vec<Uuid> = (0..MESSAGES).map(|_| publish(&queue, "orders")).collect();
    let broker = Watched::new(queue.clone(), Arc::clone(&acked), nobody);
    let running = Running::start(&inbox, broker, Durability::BeforeAck, 3).await;
    for crash in 1..=CRASHES {
        until(async || acked.0.load(Ordering::SeqCst) >= crash * BETWEEN).await;
        server.crash().await;
    }
    until(async || queue.is_empty()).await;
    running.stop().await;
    ledger(inbox.pool(), &ids).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_acked_before_a_crash_of_the_database_is_there_after_it() {
    let _alone = ALONE.lock().await;
    let server = Server::start().await;
    assert_eq!(survivors(&server).await, (0, 0), "(lost, doubled)");
    // Without the flush it shows that the server does lose what was committed.
    skip_flushes(true);
    let (lost, doubled) = survivors(&server).await;
    skip_flushes(false);
    assert!(lost > 0 && doubled == 0, "without a flush: {lost} lost, {doubled} doubled");
    assert_eq!(survivors(&server).await, (0, 0), "(lost, doubled)");
}
