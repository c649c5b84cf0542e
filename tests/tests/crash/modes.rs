//! What the message is to the process that is killed: new, known, or in the hands of another process as well.

use inbox_runtime::__private::POINTS;

use crate::{
    ledger::{Ledger, is_exact},
    worker::{Sent, Worker, times},
};

/// Points that a duplicate never comes to, since its body does not run.
const BODY_ONLY: [&str; 4] = ["after_body", "after_guard", "commit_sent", "commit_answered"];

/// Where it is certain that the effect is in the database.
const COMMITTED: [&str; 3] = ["commit_answered", "before_ack", "after_ack"];

/// Three new messages; killed at the first, the second or the third.
pub(crate) async fn fresh(ledger: &impl Ledger) {
    let mut all = Vec::new();
    for point in POINTS {
        for pass in 1..=3 {
            let when = format!("killed at {point} of message {pass}");
            let sent = [Sent::fresh(1, 100), Sent::fresh(2, 20), Sent::fresh(1, 3)];
            all.extend(sent);
            let mut worker = Worker::start(ledger, point, pass, &sent).await;
            worker.go().await;
            assert!(worker.until(&format!("at {point}"), ledger).await, "it comes to {point}: {:?}", worker.said);
            let killed = worker.kill().await;
            let acked = sent.iter().filter(|sent| times(&killed, &format!("acking {}", sent.id)) == 1).count();
            let before = usize::try_from(pass).expect("a small number") - 1;
            assert_eq!(acked, before + usize::from(point == "after_ack"), "{when}: {killed:?}");
            // All of a message or nothing, whenever the session ends.
            let rows = ledger.rows(sent[before].id).await;
            match point {
                "commit_sent" => assert!(rows == (0, 0) || rows == (1, 1), "{when}: {rows:?}"),
                _ if COMMITTED.contains(&point) => assert_eq!(rows, (1, 1), "{when}"),
                _ => assert_eq!(rows, (0, 0), "{when}"),
            }

            let said = Worker::restart(ledger, &sent).await.run(ledger).await;
            for sent in sent {
                assert_eq!(times(&said, &format!("acking {}", sent.id)), 1, "{when}: {said:?}");
            }
            // Those that were committed are not run again.
            let ran = said.iter().filter(|line| line.starts_with("body ")).count();
            let fewest = 3 - before - usize::from(COMMITTED.contains(&point) || point == "commit_sent");
            let most = fewest + usize::from(point == "commit_sent");
            assert!((fewest..=most).contains(&ran), "{when}, {ran} bodies ran again: {said:?}");
            is_exact(ledger, &all, &when).await;
        }
    }
}

/// Four new messages in the hands of one worker, so that the commit of each carries the claim of the next; killed at each passage.
pub(crate) async fn row(ledger: &impl Ledger) {
    let mut all = Vec::new();
    for point in POINTS {
        for pass in 1..=4 {
            let when = format!("killed at passage {pass} of {point}, four in its hands");
            let sent = [Sent::fresh(1, 100), Sent::fresh(2, 20), Sent::fresh(1, 3), Sent::fresh(3, 1)];
            all.extend(sent);
            let mut worker = Worker::holding(ledger, 4, point, pass, &sent).await;
            worker.go().await;
            // It looks into the ledger at each ack. Acks travel together, so it may be through before the last passage.
            let reached = worker.until(&format!("at {point}"), ledger).await;
            assert!(reached || point.ends_with("_ack"), "{when}: {:?}", worker.said);
            if reached {
                worker.kill().await;
            }
            for Sent { id, .. } in sent {
                let rows = ledger.rows(id).await;
                assert!(rows == (0, 0) || rows == (1, 1), "{when}: {rows:?}");
            }
            let mut again = Worker::holding(ledger, 4, "-", 0, &sent).await;
            again.go().await;
            let said = again.finish(ledger).await;
            for sent in sent {
                assert_eq!(times(&said, &format!("acking {}", sent.id)), 1, "{when}: {said:?}");
            }
            is_exact(ledger, &all, &when).await;
        }
    }
}

/// A message that an earlier run has applied, and one that comes twice within a run.
pub(crate) async fn duplicate(ledger: &impl Ledger) {
    let mut all = Vec::new();
    for point in POINTS {
        let when = format!("killed at {point} of a duplicate");
        let known = Sent::fresh(3, 7);
        all.push(known);
        Worker::restart(ledger, &[known]).await.run(ledger).await;
        no_body(killed_at(ledger, point, 1, &[known]).await, known, &when);
        is_exact(ledger, &all, &when).await;

        // The second arrival is the second pass of every point that a duplicate comes to.
        let twice = Sent::fresh(4, 9);
        all.push(twice);
        let said = killed_at(ledger, point, 2, &[twice, twice]).await;
        assert_eq!(times(&said, &format!("body {}", twice.id)), 1, "{when}: {said:?}");
        no_body(Worker::restart(ledger, &[twice]).await.run(ledger).await, twice, &when);
        is_exact(ledger, &all, &when).await;
    }
}

/// Runs a worker to the point and kills it, and has another one finish; or lets it end, where it never comes there. What both said.
async fn killed_at(ledger: &impl Ledger, point: &str, pass: u32, messages: &[Sent]) -> Vec<String> {
    let mut worker = Worker::start(ledger, point, pass, messages).await;
    worker.go().await;
    let reached = worker.until(&format!("at {point}"), ledger).await;
    assert_eq!(reached, !BODY_ONLY.contains(&point), "a duplicate comes to {point}: {:?}", worker.said);
    if !reached {
        assert_eq!(worker.said.last().map(String::as_str), Some("end"), "it ends by itself");
        return worker.said;
    }
    let mut said = worker.kill().await;
    said.extend(Worker::restart(ledger, messages).await.run(ledger).await);
    said
}

fn no_body(said: Vec<String>, sent: Sent, when: &str) {
    assert_eq!(times(&said, &format!("body {}", sent.id)), 0, "{when}: {said:?}");
}

/// The killed one came first, and another process has the same message from the broker meanwhile. At the points `held` it has to wait.
pub(crate) async fn other_process_waits(ledger: &impl Ledger, held: &[&str]) {
    let mut all = Vec::new();
    for point in POINTS {
        let when = format!("killed at {point} while another process has the message");
        let sent = Sent::fresh(2, 11);
        all.push(sent);
        let (mut first, mut second) = (Worker::start(ledger, point, 1, &[sent]).await, Worker::restart(ledger, &[sent]).await);
        first.go().await;
        assert!(first.until(&format!("at {point}"), ledger).await, "it comes to {point}: {:?}", first.said);
        second.go().await;
        assert!(second.until(&format!("received {}", sent.id), ledger).await, "{when}: {:?}", second.said);
        let said = if held.contains(&point) {
            ledger.until_somebody_waits().await;
            assert_eq!(ledger.rows(sent.id).await, (0, 0), "{when}");
            first.kill().await;
            let said = second.finish(ledger).await;
            assert_eq!(times(&said, &format!("body {}", sent.id)), 1, "the claim was free again; {when}: {said:?}");
            said
        } else if point == "commit_sent" {
            first.kill().await;
            second.finish(ledger).await
        } else {
            let said = second.finish(ledger).await;
            first.kill().await;
            let bodies = times(&said, &format!("body {}", sent.id));
            assert_eq!(bodies, usize::from(!COMMITTED.contains(&point)), "{when}: {said:?}");
            said
        };
        assert_eq!(times(&said, &format!("acking {}", sent.id)), 1, "{when}: {said:?}");
        no_body(Worker::restart(ledger, &[sent]).await.run(ledger).await, sent, &when);
        is_exact(ledger, &all, &when).await;
    }
}

/// Whoever comes first; the one that is to be killed may find a duplicate, and then ends without having come to the point.
pub(crate) async fn two_started_together(ledger: &impl Ledger) {
    let mut all = Vec::new();
    for point in POINTS {
        let when = format!("two together, one killed at {point}");
        let sent = [Sent::fresh(1, 13), Sent::fresh(4, 17)];
        all.extend(sent);
        let (mut killed, survivor) = (Worker::start(ledger, point, 1, &sent).await, Worker::restart(ledger, &sent).await);
        let kill = async {
            killed.go().await;
            if killed.until(&format!("at {point}"), ledger).await {
                killed.kill().await;
            } else {
                assert_eq!(killed.said.last().map(String::as_str), Some("end"), "{when}: it ends by itself");
            }
        };
        let ((), said) = tokio::join!(kill, survivor.run(ledger));
        for sent in sent {
            assert_eq!(times(&said, &format!("acking {}", sent.id)), 1, "{when}: {said:?}");
        }
        is_exact(ledger, &all, &when).await;
    }
}
