//! From a subscription to its acks, one message at a time.

use std::{collections::HashSet, fmt, num::NonZeroU16, time::Duration};

use bytes::Bytes;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    dispatch::{
        Dispatcher,
        outcome::{ConsumerFailure, Dispatched},
    },
    intake::Intake,
};
use crate::{
    engine::{
        contract::{
            broker::{Broker, BrokerError, Subscription},
            database::InboxDatabase,
            delivery::Delivery,
            settle::{Settle, Settled, settle},
        },
        heart::{probe::point, registry::StartError},
    },
    vocabulary::{
        backoff::Backoff,
        error::{FailureKind, ProcessError},
    },
};

/// How long the broker may take to answer.
const LIMIT: Duration = Duration::from_secs(10);
/// How long one `receive` waits; a stop is noticed at its end.
const RECEIVE_WAIT: Duration = Duration::from_millis(500);

/// Takes deliveries from one subscription, one at a time, hands each to a dispatcher, and settles it: acked when every consumer has given
/// its receipt, given back with a growing delay otherwise.
///
/// ```no_run
/// # #[cfg(all(feature = "postgres", feature = "memory"))]
/// # async fn example(pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// use inbox_runtime::{Dispatcher, IdFrom, Inbox, Intake, Runner, broker::Memory};
///
/// Inbox::new(&pool).migrate().await?;
/// let dispatcher = Dispatcher::builder(&pool).build().await?;
/// let broker = Memory::new();
/// Runner::new(dispatcher, broker, Intake::new("orders", IdFrom::header("event-id"))).run().await?;
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct Runner<DB: InboxDatabase, B: Broker> {
    dispatcher: Dispatcher<DB>,
    broker: B,
    intake: Intake,
    prefetch: NonZeroU16,
    retry: Backoff,
    stop: CancellationToken,
}

impl<DB: InboxDatabase, B: Broker> Runner<DB, B> {
    /// A runner with a prefetch of 16 and retries after 0.1 s to 30 s.
    pub fn new(dispatcher: Dispatcher<DB>, broker: B, intake: Intake) -> Self {
        Self {
            dispatcher,
            broker,
            intake,
            prefetch: NonZeroU16::MIN.saturating_add(15),
            retry: Backoff::new(Duration::from_millis(100), Duration::from_secs(30)),
            stop: CancellationToken::new(),
        }
    }

    /// How many deliveries may be held at once. Default: 16.
    pub const fn prefetch(mut self, prefetch: NonZeroU16) -> Self {
        self.prefetch = prefetch;
        self
    }

    /// The delay before a failed message comes again: it doubles from `first` to `longest` with each delivery, where the broker counts them.
    /// Default: 0.1 s to 30 s.
    pub const fn retry(mut self, first: Duration, longest: Duration) -> Self {
        self.retry = Backoff::new(first, longest);
        self
    }

    /// Cancelling this token stops the runner: it finishes the message that is under way, gives the others back, and leaves the broker.
    pub fn stop_on(mut self, token: CancellationToken) -> Self {
        self.stop = token;
        self
    }

    /// Runs until it is told to stop. A broker that is out of reach is subscribed to again, with backoff.
    ///
    /// Dropping the future stops at once: what was not acked comes again.
    ///
    /// # Errors
    ///
    /// [`RunError`]: the consumers do not fit the subscription, the broker refuses it for good, or a consumer has ended its transaction
    /// itself. It never goes quiet instead.
    pub async fn run(self) -> Result<(), RunError> {
        self.dispatcher.check(&self.intake)?;
        let mut failed: u32 = 0;
        while !self.stop.is_cancelled() {
            let subscribed = tokio::select! {
                subscribed = self.broker.subscribe(self.prefetch) => subscribed,
                () = self.stop.cancelled() => return Ok(()),
            };
            let error = match subscribed {
                Ok(subscription) => match self.serve(&subscription, &mut failed).await {
                    Ok(()) => return in_time(LIMIT, subscription.close()).await.map_err(RunError::Broker),
                    Err(RunError::Broker(error @ BrokerError::Unavailable(_))) => error,
                    Err(error) => {
                        if let Err(close) = in_time(LIMIT, subscription.close()).await {
                            tracing::debug!(error = %close, "the subscription did not close in an orderly way");
                        }
                        return Err(error);
                    }
                },
                Err(error @ BrokerError::Unavailable(_)) => error,
                Err(error @ BrokerError::Fatal(_)) => return Err(RunError::Broker(error)),
            };
            failed = failed.saturating_add(1);
            let pause = self.retry.after(failed);
            tracing::warn!(broker = self.broker.name(), %error, ?pause, "subscribing again");
            tokio::select! {
                () = sleep(pause) => {}
                () = self.stop.cancelled() => {}
            }
        }
        Ok(())
    }

    async fn serve(&self, from: &B::Subscription, failed: &mut u32) -> Result<(), RunError> {
        while !self.stop.is_cancelled() {
            let received = in_time(RECEIVE_WAIT + LIMIT, from.receive(self.prefetch, RECEIVE_WAIT)).await;
            let mut batch = received.map_err(RunError::Broker)?.into_iter();
            // A subscription that brings nothing but errors is none.
            *failed = 0;
            // Keys whose earlier message is given back: the later ones follow it, or they would overtake it.
            let mut blocked: HashSet<Bytes> = HashSet::new();
            while let Some(delivery) = batch.next() {
                let key = delivery.origin().order_key.clone();
                let waits = key.as_ref().is_some_and(|key| blocked.contains(key));
                let answer = if waits || self.stop.is_cancelled() {
                    Handled { settle: delivery.retry(Duration::ZERO), again: true, halted: None }
                } else {
                    self.handle(from, delivery, batch.as_slice()).await?
                };
                if answer.again {
                    blocked.extend(key);
                }
                self.tell(from, answer.settle).await?;
                if let Some(failure) = answer.halted {
                    return Err(RunError::Halted { failure });
                }
            }
        }
        Ok(())
    }

    async fn handle(
        &self,
        from: &B::Subscription,
        mut delivery: Delivery<Handle<B>>,
        waiting: &[Delivery<Handle<B>>],
    ) -> Result<Handled<Handle<B>>, RunError> {
        let route = self.dispatcher.route(&mut delivery, &self.intake);
        let done = {
            let held: Vec<&Delivery<Handle<B>>> = std::iter::once(&delivery).chain(waiting).collect();
            self.keep_leases(from, &held, self.dispatcher.run(route)).await?
        };
        let Dispatched { receipts, mut failures, id } = done;
        if failures.is_empty() {
            return match delivery.ack(receipts) {
                Ok(settle) => Ok(Handled { settle, again: false, halted: None }),
                // Not reachable: the dispatcher gives one receipt or one failure for each ticket. The message comes again.
                Err(unproven) => {
                    tracing::error!(?id, error = %unproven, "not acked");
                    let settle = unproven.delivery.retry(self.retry.longest);
                    Ok(Handled { settle, again: true, halted: None })
                }
            };
        }
        let after = self.retry.after(delivery.origin().attempt.unwrap_or(1));
        for failure in &failures {
            tracing::warn!(consumer = failure.consumer, ?id, attempt = delivery.origin().attempt, ?after, "{failure}; it comes again");
        }
        let halts =
            |failure: &ConsumerFailure| failure.error.kind() == FailureKind::Halting || matches!(failure.error, ProcessError::Halted);
        let halted = failures.iter().position(halts).map(|i| failures.swap_remove(i));
        Ok(Handled { settle: delivery.retry(after), again: true, halted })
    }

    /// Runs `work` while every delivery that is held stays ours.
    async fn keep_leases<T>(
        &self,
        from: &B::Subscription,
        held: &[&Delivery<Handle<B>>],
        work: impl Future<Output = T>,
    ) -> Result<T, RunError> {
        let Some(lease) = from.terms().lease else { return Ok(work.await) };
        let every = (lease / 3).max(Duration::from_millis(10));
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.reset();
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Ok(done),
                _ = ticks.tick() => {
                    let mut extend = std::pin::pin!(timeout(every, from.extend(held)));
                    // The work goes on meanwhile. If it ends first, the extension is still awaited; what is done is settled whatever becomes of it.
                    let early = tokio::select! {
                        done = &mut work => Some(done),
                        extended = &mut extend => {
                            match extended {
                                Ok(extended) => extended.map_err(RunError::Broker)?,
                                Err(_) => tracing::warn!(subscription = self.intake.name, "no answer to an extension within {every:?}"),
                            }
                            None
                        }
                    };
                    if let Some(done) = early {
                        if let Ok(Err(error)) = extend.await {
                            tracing::warn!(subscription = self.intake.name, %error, "not extended, and done");
                        }
                        return Ok(done);
                    }
                }
            }
        }
    }

    async fn tell(&self, to: &B::Subscription, one: Settle<Handle<B>>) -> Result<(), RunError> {
        point("before_ack");
        let answers = settle(to, vec![one], LIMIT).await.map_err(RunError::Broker)?;
        point("after_ack");
        for answer in answers {
            match answer {
                Settled::Sent => {}
                Settled::Late => tracing::info!(subscription = self.intake.name, "settled too late; the message comes again"),
                Settled::Failed(error) => {
                    tracing::warn!(subscription = self.intake.name, %error, "the broker did not take a settle; the message comes again");
                }
            }
        }
        Ok(())
    }
}

async fn in_time<T>(limit: Duration, call: impl Future<Output = Result<T, BrokerError>>) -> Result<T, BrokerError> {
    timeout(limit, call).await.map_err(BrokerError::unavailable)?
}

type Handle<B> = <<B as Broker>::Subscription as Subscription>::Handle;

struct Handled<H> {
    settle: Settle<H>,
    /// It comes again, so what is ordered behind it must wait.
    again: bool,
    halted: Option<ConsumerFailure>,
}

impl<DB: InboxDatabase, B: Broker> fmt::Debug for Runner<DB, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Runner");
        debug.field("broker", &self.broker.name()).field("dispatcher", &self.dispatcher).field("intake", &self.intake);
        debug.finish_non_exhaustive()
    }
}

/// Why a runner ended without being told to.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError {
    /// The consumers do not fit the subscription.
    Start(StartError),
    /// The broker refuses the subscription, or leaving it failed.
    Broker(BrokerError),
    /// A consumer ended its transaction itself. Its message is a dead letter and was not acked. Mend the handler first.
    Halted {
        /// Which, and why.
        failure: ConsumerFailure,
    },
}

impl From<StartError> for RunError {
    fn from(error: StartError) -> Self {
        Self::Start(error)
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(error) => error.fmt(f),
            Self::Broker(error) => error.fmt(f),
            Self::Halted { failure } => write!(f, "stopped: {failure}"),
        }
    }
}

impl std::error::Error for RunError {}
