#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! The one way from a delivery to an ack.

use std::time::Duration;

use inbox_runtime::{
    Dispatcher, InboxDatabase, Intake,
    broker::{BrokerError, Delivery, Settled, Subscription, settle},
};

/// One delivery, by hand.
pub async fn one<DB: InboxDatabase, S: Subscription>(
    dispatcher: &Dispatcher<DB>,
    from: &S,
    mut delivery: Delivery<S::Handle>,
    intake: &Intake,
) -> Result<Vec<Settled>, BrokerError> {
    let done = dispatcher.dispatch(&mut delivery, intake).await;
    let verdict = if done.failures.is_empty() {
        match delivery.ack(done.receipts) {
            Ok(acked) => acked,
            Err(unproven) => unproven.delivery.retry(Duration::from_secs(1)),
        }
    } else {
        delivery.retry(Duration::from_secs(1))
    };
    settle(from, vec![verdict], Duration::from_secs(5)).await
}

fn main() {}
