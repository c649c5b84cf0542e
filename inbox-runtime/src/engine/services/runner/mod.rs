//! From a subscription to its acks.

mod held;
mod serving;

use std::{fmt, num::NonZeroU16, time::Duration};

use tokio::time::sleep;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::Instrument;

use self::serving::{LIMIT, Serving, in_time};
use super::{
    dispatch::{Dispatcher, outcome::ConsumerFailure, workers::Workers},
    intake::Intake,
};
use crate::{
    engine::{
        contract::{
            broker::{Broker, BrokerError, Subscription},
            database::InboxDatabase,
        },
        heart::registry::StartError,
    },
    vocabulary::{backoff::Backoff, config::Durability},
};

/// Takes deliveries from one subscription, hands each to a dispatcher, and settles it: acked when every consumer has given its receipt, given
/// back with a growing delay otherwise.
///
/// Its workers each own a connection of the inbox's pool, on which the claim of a message travels with the commit of the one before it. Messages
/// with one order key are handled one at a time, in the order received; others side by side.
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
    prefetch: Option<NonZeroU16>,
    workers: NonZeroU16,
    durability: Durability,
    retry: Backoff,
    stop: CancellationToken,
}

impl<DB: InboxDatabase, B: Broker> Runner<DB, B> {
    /// A runner with four workers, a prefetch of 16 or what two of its largest batches hold, and retries after 0.1 s to 30 s.
    pub fn new(dispatcher: Dispatcher<DB>, broker: B, intake: Intake) -> Self {
        Self {
            dispatcher,
            broker,
            intake,
            prefetch: None,
            workers: NonZeroU16::MIN.saturating_add(3),
            durability: Durability::default(),
            retry: Backoff::new(Duration::from_millis(100), Duration::from_secs(30)),
            stop: CancellationToken::new(),
        }
    }

    /// How many deliveries may be held at once. Default: 16, or twice as many as the largest `group` or `batch` of the consumers takes.
    /// With fewer than one of them takes it never fills.
    pub const fn prefetch(mut self, prefetch: NonZeroU16) -> Self {
        self.prefetch = Some(prefetch);
        self
    }

    fn held_at_most(&self) -> NonZeroU16 {
        let usual = || NonZeroU16::MIN.saturating_add(self.dispatcher.largest_group().saturating_mul(2).max(16) - 1);
        self.prefetch.unwrap_or_else(usual)
    }

    /// How many workers there are at most, each with a connection of the pool for as long as the runner runs. Default: 4.
    ///
    /// One connection of the pool is left for all else (dead letters above all), so a pool of three gives two workers, to all its runners together.
    /// SQLite has one writer, and one worker, which takes turns with all else where the pool has one connection. Where none is left, messages are
    /// handled on the pool's connections as they come, each in a transaction of its own.
    pub const fn workers(mut self, workers: NonZeroU16) -> Self {
        self.workers = workers;
        self
    }

    /// When commits have to be on disk. Default: [`Durability::Commit`]. [`Durability::BeforeAck`] keeps one more connection of a PostgreSQL pool.
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
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
    /// It works in a task of its own, next to its workers. Dropping the future ends that task: what was not acked comes again.
    ///
    /// # Errors
    ///
    /// [`RunError`]: the consumers do not fit the subscription, the broker refuses it for good, or a consumer has ended its transaction
    /// itself. It never goes quiet instead.
    ///
    /// # Panics
    ///
    /// Where the broker's adapter does.
    pub async fn run(self) -> Result<(), RunError> {
        // A future that `block_on` runs has a thread to itself, which each message would have to wake.
        let serving = AbortOnDropHandle::new(tokio::spawn(self.serve().in_current_span()));
        match serving.await {
            Ok(ended) => ended,
            Err(died) => match died.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(RunError::Runtime),
            },
        }
    }

    async fn serve(self) -> Result<(), RunError> {
        self.dispatcher.check(&self.intake)?;
        let workers = Workers::start(self.dispatcher.inbox(), self.workers, self.durability);
        let ended = self.subscribe(workers.as_ref()).await;
        if let Some(workers) = workers {
            workers.stop().await;
        }
        ended
    }

    async fn subscribe(&self, workers: Option<&Workers<DB>>) -> Result<(), RunError> {
        let mut failed: u32 = 0;
        while !self.stop.is_cancelled() {
            let subscribed = tokio::select! {
                subscribed = self.broker.subscribe(self.held_at_most()) => subscribed,
                () = self.stop.cancelled() => return Ok(()),
            };
            let error = match subscribed {
                Ok(subscription) => match Serving::new(self, &subscription, workers).run(&mut failed).await {
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
    /// The tokio runtime that it worked on has shut down.
    Runtime,
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
            Self::Runtime => f.write_str("the tokio runtime of this runner has shut down"),
        }
    }
}

impl std::error::Error for RunError {}
