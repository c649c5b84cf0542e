//! A flush counts for nothing that was committed before its session was opened: the crash may have been in between.

use std::sync::atomic::Ordering;

use inbox_runtime::{
    __private::{flushes_held, hold_flushes, trust_any_session},
    Durability, Uuid,
    broker::Memory,
};
use inbox_tests::server::Server;

use super::support::{ALONE, BLOCKED, Running, fresh, ledger, publish, until};

/// Kills the database between a commit and its flush, which then goes through on a new session. How many messages were acked and are not
/// there, and how many were applied more than once.
async fn flushed_on_the_next_session(server: &Server) -> (i64, i64) {
    let (inbox, queue) = (fresh(server).await, Memory::new());
    server.freeze().await;
    hold_flushes(true);
    let running = Running::start(&inbox, queue.clone(), Durability::BeforeAck, 1).await;
    let mut ids: Vec<Uuid> = Vec::new();
    // Until there is a session to flush on, commits wait for the disk.
    until(async || {
        if queue.is_empty() {
            ids.push(publish(&queue, "orders"));
        }
        flushes_held() > 0
    })
    .await;
    // The flusher hears of the crash by what it holds. These wait behind it, and for a session that can flush.
    ids.extend((0..5).map(|_| publish(&queue, "orders")));
    until(async || ledger(inbox.pool(), &ids).await == (0, 0)).await;
    // The only worker is at the next message: it has left them to the flusher.
    publish(&queue, "blocks");
    until(async || BLOCKED.load(Ordering::SeqCst)).await;
    server.crash().await;
    hold_flushes(false);
    // It loses its session, and comes again.
    until(async || {
        BLOCKED.store(false, Ordering::SeqCst);
        queue.is_empty()
    })
    .await;
    running.stop().await;
    ledger(inbox.pool(), &ids).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_on_a_session_that_was_opened_after_the_crash_counts_for_nothing_before_it() {
    let _alone = ALONE.lock().await;
    let server = Server::start().await;
    assert_eq!(flushed_on_the_next_session(&server).await, (0, 0), "(lost, doubled)");
    trust_any_session(true);
    let (lost, doubled) = flushed_on_the_next_session(&server).await;
    trust_any_session(false);
    assert!(lost >= 5 && doubled == 0, "with any session: {lost} lost, {doubled} doubled");
    assert_eq!(flushed_on_the_next_session(&server).await, (0, 0), "(lost, doubled)");
}
