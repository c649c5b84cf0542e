//! A broker that costs next to nothing: it hands out what it was given, and counts what is settled.

use std::{
    num::NonZeroU16,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use inbox_runtime::{
    Message,
    broker::{Broker, BrokerError, Delivery, Lease, Origin, Settle, Settled, Subscription, Terms, Verdict},
};
use tokio_util::sync::CancellationToken;

#[derive(Clone)]
pub(crate) struct Feed {
    state: Arc<Mutex<State>>,
    pub(crate) done: CancellationToken,
}

struct State {
    waiting: std::vec::IntoIter<Message>,
    open: usize,
}

pub(crate) struct FeedHandle(());

impl Feed {
    pub(crate) fn of(messages: Vec<Message>) -> Self {
        let open = messages.len();
        Self { state: Arc::new(Mutex::new(State { waiting: messages.into_iter(), open })), done: CancellationToken::new() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Broker for Feed {
    type Subscription = Self;

    fn name(&self) -> String {
        "feed".to_owned()
    }

    async fn subscribe(&self, _prefetch: NonZeroU16) -> Result<Self, BrokerError> {
        Ok(self.clone())
    }
}

impl Subscription for Feed {
    type Handle = FeedHandle;

    fn terms(&self) -> Terms {
        Terms { lease: None, horizon: None }
    }

    async fn receive(&self, max: NonZeroU16, wait: Duration) -> Result<Vec<Delivery<FeedHandle>>, BrokerError> {
        let messages: Vec<Message> = self.lock().waiting.by_ref().take(usize::from(max.get())).collect();
        if messages.is_empty() {
            let _ = tokio::time::timeout(wait, self.done.cancelled()).await;
        }
        let deliver = |message| Delivery::new(message, Origin::default(), Lease::new(), FeedHandle(()));
        Ok(messages.into_iter().map(deliver).collect())
    }

    async fn settle(&self, batch: Vec<Settle<FeedHandle>>) -> Result<Vec<Settled>, BrokerError> {
        let answers: Vec<Settled> = batch.into_iter().map(|settle| self.answer(settle.into_parts().1)).collect();
        Ok(answers)
    }

    async fn close(&self) -> Result<(), BrokerError> {
        Ok(())
    }
}

impl Feed {
    fn answer(&self, verdict: Verdict) -> Settled {
        assert_eq!(verdict, Verdict::Done, "every message of a benchmark succeeds");
        let mut state = self.lock();
        state.open -= 1;
        if state.open == 0 {
            self.done.cancel();
        }
        Settled::Sent
    }
}
