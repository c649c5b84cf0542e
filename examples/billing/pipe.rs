//! The worker's end of the pipes, and an adapter that makes a broker of it: all that the runner needs.

use std::{io, num::NonZeroU16, sync::Arc, time::Duration};

use inbox_runtime::{
    Message,
    broker::{Broker, BrokerError, Delivery, Lease, Origin, Settle, Settled, Subscription, Terms, Verdict},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, Stdin, Stdout},
    sync::Mutex,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Error,
    protocol::{Answer, Delivered, End, Job, Question},
    tally::Tally,
};

/// A connection to the broker. It answers each question before the next.
pub(crate) struct Pipe {
    ends: Mutex<(Lines<BufReader<Stdin>>, Stdout)>,
    /// The broker has no more, or is gone.
    pub(crate) over: CancellationToken,
}

impl Pipe {
    pub(crate) async fn open() -> Result<(Self, Job), Error> {
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        let job = lines.next_line().await?.ok_or("the worker is started by the example itself: run it without `worker`")?;
        let job = serde_json::from_str(&job)?;
        Ok((Self { ends: Mutex::new((lines, tokio::io::stdout())), over: CancellationToken::new() }, job))
    }

    pub(crate) async fn ask(&self, question: &Question) -> Result<Answer, Error> {
        let mut ends = self.ends.lock().await;
        let (lines, out) = &mut *ends;
        let mut text = serde_json::to_vec(question)?;
        text.push(b'\n');
        let exchange = async {
            out.write_all(&text).await?;
            out.flush().await?;
            lines.next_line().await?.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
        };
        let answer = exchange.await.inspect_err(|_| self.over.cancel())?;
        let answer = serde_json::from_str(&answer)?;
        if matches!(answer, Answer::Finished) {
            self.over.cancel();
        }
        Ok(answer)
    }
}

#[derive(Clone)]
pub(crate) struct PipeBroker {
    pub(crate) pipe: Arc<Pipe>,
    pub(crate) tally: Arc<Tally>,
}

impl Broker for PipeBroker {
    type Subscription = PipeSubscription;

    fn name(&self) -> String {
        "pipe:orders".to_owned()
    }

    async fn subscribe(&self, prefetch: NonZeroU16) -> Result<PipeSubscription, BrokerError> {
        Ok(PipeSubscription { pipe: Arc::clone(&self.pipe), tally: Arc::clone(&self.tally), prefetch })
    }
}

pub(crate) struct PipeSubscription {
    pipe: Arc<Pipe>,
    tally: Arc<Tally>,
    prefetch: NonZeroU16,
}

impl PipeSubscription {
    async fn ask(&self, question: Question) -> Result<Answer, BrokerError> {
        // Without its pipe this process is nobody's worker: there is no subscribing again.
        self.pipe.ask(&question).await.map_err(BrokerError::fatal)
    }
}

impl Subscription for PipeSubscription {
    type Handle = u64;

    fn terms(&self) -> Terms {
        // A delivery is ours until this process ends.
        Terms { lease: None, horizon: None }
    }

    async fn receive(&self, max: NonZeroU16, wait: Duration) -> Result<Vec<Delivery<u64>>, BrokerError> {
        let (deadline, most) = (Instant::now() + wait, max.min(self.prefetch).get());
        loop {
            match self.ask(Question::Receive { most }).await? {
                Answer::Deliveries(found) if !found.is_empty() => return Ok(found.into_iter().map(delivery).collect()),
                // Some have to wait before they come again.
                Answer::Deliveries(_) if Instant::now() < deadline => sleep(Duration::from_millis(5)).await,
                Answer::Deliveries(_) | Answer::Settled(_) | Answer::Finished => return Ok(Vec::new()),
            }
        }
    }

    async fn settle(&self, batch: Vec<Settle<u64>>) -> Result<Vec<Settled>, BrokerError> {
        let tags = batch.into_iter().map(Settle::into_parts).map(|(tag, verdict)| (tag, end(verdict))).collect();
        match self.ask(Question::Settle { tags, duplicates: self.tally.duplicates() }).await? {
            Answer::Settled(held) => Ok(held.into_iter().map(|held| if held { Settled::Sent } else { Settled::Late }).collect()),
            Answer::Deliveries(_) | Answer::Finished => Err(BrokerError::fatal("the answer does not fit the question")),
        }
    }

    async fn close(&self) -> Result<(), BrokerError> {
        Ok(())
    }
}

fn delivery(Delivered { tag, attempt, event }: Delivered) -> Delivery<u64> {
    let payload = serde_json::to_vec(&event.order).unwrap_or_default();
    let message = Message::new("orders", payload).with_header("event-id", event.event_id);
    let origin = Origin { transport_id: Some(format!("pipe/{tag}")), order_key: None, attempt: Some(attempt) };
    Delivery::new(message, origin, Lease::new(), tag)
}

fn end(verdict: Verdict) -> End {
    match verdict {
        Verdict::Done => End::Done,
        Verdict::DeadLettered => End::DeadLettered,
        Verdict::Retry { after } => End::Again { after_ms: u64::try_from(after.as_millis()).unwrap_or(u64::MAX) },
    }
}
