//! A delivery is not what is settled: what `ack(receipts)` makes of it is.
use inbox_runtime::broker::{BrokerError, Delivery, Settled, Subscription};

pub async fn early<S: Subscription>(from: &S, delivery: Delivery<S::Handle>) -> Result<Vec<Settled>, BrokerError> {
    from.settle(vec![delivery]).await
}

fn main() {}
