//! A delivery is settled once, with its own receipts, and only the dispatcher gives them.

use std::time::Duration;

use inbox_runtime::{
    Unmatched,
    broker::{Memory, Proof, Settled, Verdict},
};

use super::support::*;

#[tokio::test]
async fn a_delivery_that_went_to_nobody_cannot_be_acked() {
    let broker = Memory::new();
    broker.publish(numbered(1));
    let from = subscribe(&broker, 10).await;
    let delivery = receive(&from).await.pop().unwrap();
    let unproven = delivery.ack(Vec::new()).unwrap_err();
    assert!(unproven.to_string().contains("0 receipts"), "{unproven}");
    // It is handed back, to be given back.
    let settled = tell(&from, vec![unproven.delivery.retry(Duration::ZERO)]).await;
    assert!(matches!(settled[..], [Settled::Sent]), "{settled:?}");
    assert_eq!((broker.counts().retried, broker.counts().done, broker.counts().ready), (1, 0, 1));
}

#[tokio::test]
async fn a_receipt_settles_its_own_delivery_and_no_other() {
    let ((pool, inbox), broker) = (pool().await, Memory::new());
    let dispatcher = dispatcher(&inbox, noting()).await;
    [1, 2].map(numbered).into_iter().for_each(|message| broker.publish(message));
    let from = subscribe(&broker, 10).await;
    let [mut first, mut second] = <[_; 2]>::try_from(receive(&from).await).unwrap();
    let mut of_first = dispatcher.dispatch(&mut first, &intake()).await.receipts;
    let of_second = dispatcher.dispatch(&mut second, &intake()).await.receipts;
    assert_eq!(of_first[0].proof(), Proof::Applied);
    // Another's, too few, and too many.
    let refused = second.ack(of_first).unwrap_err();
    (second, of_first) = (refused.delivery, refused.receipts);
    let refused = second.ack(Vec::new()).unwrap_err();
    second = refused.delivery;
    of_first.extend(of_second);
    let refused = first.ack(of_first).unwrap_err();
    let (first, mut receipts) = (refused.delivery, refused.receipts);
    assert_eq!(broker.counts().held, 2, "nothing was settled");
    let last = receipts.pop().unwrap();
    let (first, second) = (first.ack(receipts).unwrap(), second.ack(vec![last]).unwrap());
    assert!(matches!(tell(&from, vec![second, first]).await[..], [Settled::Sent, Settled::Sent]));
    assert_eq!((broker.counts().done, broker.counts().held), (2, 0));
    assert_eq!(applied(&pool).await, [1, 2]);
}

#[tokio::test]
async fn a_redelivery_asks_for_a_receipt_of_its_own_and_gets_a_duplicates() {
    let ((pool, inbox), broker) = (pool().await, Memory::new());
    let dispatcher = dispatcher(&inbox, noting()).await;
    broker.publish(numbered(1));
    let first = subscribe(&broker, 10).await;
    let mut delivery = receive(&first).await.pop().unwrap();
    let old = dispatcher.dispatch(&mut delivery, &intake()).await.receipts;
    // The worker dies between commit and ack.
    drop((delivery, first));
    let second = subscribe(&broker, 10).await;
    let mut delivery = receive(&second).await.pop().unwrap();
    assert_eq!(delivery.origin().attempt, Some(2));
    assert!(delivery.message().headers.text("id").is_ok());
    let new = dispatcher.dispatch(&mut delivery, &intake()).await.receipts;
    assert_eq!(new[0].proof(), Proof::Duplicate);
    let delivery = delivery.ack(old).unwrap_err().delivery;
    let (_, verdict) = delivery.ack(new).unwrap().into_parts();
    assert_eq!(verdict, Verdict::Done);
    assert_eq!(applied(&pool).await, [1]);
}

#[tokio::test]
async fn a_failure_gives_no_receipt() {
    let ((pool, inbox), broker) = (pool().await, Memory::new());
    let dispatcher = dispatcher(&inbox, script(|_| async { Err("no stock".into()) })).await;
    broker.publish(numbered(1));
    let from = subscribe(&broker, 10).await;
    let mut delivery = receive(&from).await.pop().unwrap();
    let done = dispatcher.dispatch(&mut delivery, &intake()).await;
    assert_eq!((done.receipts.len(), done.failures.len()), (0, 1));
    assert_eq!(done.failures[0].consumer, "contract.ledger");
    assert!(delivery.ack(done.receipts).is_err());
    assert_eq!(applied(&pool).await, [0; 0]);
}

#[tokio::test]
async fn what_nobody_wants_is_a_dead_letter_or_acked_as_the_subscription_says() {
    for (unmatched, verdict, letters) in [(Unmatched::DeadLetter, Verdict::DeadLettered, 1_i64), (Unmatched::Ack, Verdict::Done, 0)] {
        let ((pool, inbox), broker) = (pool().await, Memory::new());
        let dispatcher = dispatcher(&inbox, noting()).await;
        let mut message = numbered(1);
        "refunds".clone_into(&mut message.topic);
        broker.publish(message);
        let from = subscribe(&broker, 10).await;
        let mut delivery = receive(&from).await.pop().unwrap();
        let done = dispatcher.dispatch(&mut delivery, &intake().unmatched(unmatched)).await;
        assert_eq!(done.failures.len(), 0);
        let (_, told) = delivery.ack(done.receipts).unwrap().into_parts();
        assert_eq!(told, verdict);
        let stored: i64 =
            sqlx::query_scalar("SELECT count(*) FROM inbox_dead_letter WHERE reason = 'unmatched'").fetch_one(&pool).await.unwrap();
        assert_eq!(stored, letters);
    }
}

/// A message with a dead letter among its consumers is told as one, so that the broker's own numbers show it.
#[tokio::test]
async fn a_message_without_an_id_is_told_as_a_dead_letter() {
    let ((_pool, inbox), broker) = (pool().await, Memory::new());
    let running = serve(dispatcher(&inbox, noting()).await, broker.clone(), intake());
    broker.publish(inbox_runtime::Message::new("orders", "{}"));
    broker.publish(numbered(1));
    running.drain(&broker).await;
    running.stop().await.unwrap();
    assert_eq!((broker.counts().done, broker.counts().dead_lettered), (1, 1));
}
