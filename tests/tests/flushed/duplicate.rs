//! A duplicate is a receipt only once the row that it met is on disk: another process may have committed it and not flushed yet.

use std::process::Stdio;

use inbox_runtime::{__private::trust_duplicates, Durability, MessageId, Outcome, Uuid, broker::Memory};
use inbox_tests::server::Server;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use super::support::{ALONE, Running, flushed, fresh, inbox, ledger, message, until};

/// Who meets what another process has applied.
#[derive(Debug, Clone, Copy)]
enum By {
    Call,
    Runner(Durability),
}

/// A process that has committed these messages, which are not on disk.
async fn committed(server: &Server, count: usize) -> (Child, Vec<Uuid>) {
    let options = server.options();
    let url = format!("postgres://postgres@{}:{}/postgres", options.get_host(), options.get_port());
    let mut command = Command::new(env!("CARGO_BIN_EXE_unflushed_worker"));
    command.arg(url).arg(count.to_string()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().expect("a worker");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut ids = Vec::new();
    while ids.len() < count {
        let line = lines.next_line().await.expect("its output").expect("it goes on");
        ids.push(line.strip_prefix("committed ").and_then(|id| id.parse().ok()).unwrap_or_else(|| panic!("it said {line}")));
    }
    (child, ids)
}

/// One process commits and dies with the database before its flush; another has met the same messages meanwhile, and has told their broker that
/// they are done. How many are not there, and how many more than once.
async fn met(server: &Server, by: By) -> (i64, i64) {
    let ledger_of = fresh(server).await;
    server.freeze().await;
    let (mut child, ids) = committed(server, 3).await;
    let other = inbox(server).await;
    match by {
        By::Call => {
            for id in &ids {
                let id = MessageId::try_from(*id).expect("an id");
                assert_eq!(flushed(&other, id, id).await.expect("done"), Outcome::Duplicate(()));
            }
        }
        By::Runner(durability) => {
            let queue = Memory::new();
            ids.iter().for_each(|id| queue.publish(message("orders", *id)));
            let running = Running::start(&other, queue.clone(), durability, 1).await;
            until(async || queue.is_empty()).await;
            running.stop().await;
        }
    }
    child.kill().await.expect("it is killed");
    server.crash().await;
    ledger(ledger_of.pool(), &ids).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_of_what_another_process_has_not_flushed_yet_is_acked_once_it_is_there_to_stay() {
    let _alone = ALONE.lock().await;
    let server = Server::start().await;
    for by in [By::Call, By::Runner(Durability::Commit), By::Runner(Durability::BeforeAck)] {
        assert_eq!(met(&server, by).await, (0, 0), "(lost, doubled) by {by:?}");
        trust_duplicates(true);
        let (lost, doubled) = met(&server, by).await;
        trust_duplicates(false);
        assert!(lost == 3 && doubled == 0, "acked at once by {by:?}: {lost} lost, {doubled} doubled");
    }
}
