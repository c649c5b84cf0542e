use std::{future::Future, num::NonZeroU16, pin::Pin, time::Duration};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::{RunError, Runner, held::Held};
use crate::{
    engine::{
        contract::{
            broker::{Broker, BrokerError, Subscription},
            database::InboxDatabase,
            delivery::Delivery,
            settle::{Settle, Settled, settle},
        },
        heart::probe::point,
        services::dispatch::{
            outcome::{ConsumerFailure, Dispatched},
            workers::Workers,
        },
    },
    vocabulary::error::{FailureKind, ProcessError},
};

/// How long the broker may take to answer.
pub(super) const LIMIT: Duration = Duration::from_secs(10);
/// How long one `receive` waits; a stop is noticed at its end.
const RECEIVE_WAIT: Duration = Duration::from_millis(500);

type Handle<B> = <<B as Broker>::Subscription as Subscription>::Handle;
type Receiving<'r, B> = Pin<Box<dyn Future<Output = Result<Vec<Delivery<Handle<B>>>, BrokerError>> + Send + 'r>>;
/// The number of a delivery, and what becomes of it. Bodies run elsewhere: this is little work.
type Running = Pin<Box<dyn Future<Output = (u64, Dispatched)> + Send>>;
type Settling<'r> = Pin<Box<dyn Future<Output = Result<Vec<Settled>, BrokerError>> + Send + 'r>>;

/// One subscription, from its first delivery until it breaks or the runner is told to stop.
pub(super) struct Serving<'r, DB: InboxDatabase, B: Broker> {
    runner: &'r Runner<DB, B>,
    from: &'r B::Subscription,
    workers: Option<&'r Workers<DB>>,
    held: Held<Handle<B>>,
    most: NonZeroU16,
    running: FuturesUnordered<Running>,
    cut: CancellationToken,
    to_settle: Vec<Settle<Handle<B>>>,
    stopping: bool,
    halted: Option<ConsumerFailure>,
}

impl<'r, DB: InboxDatabase, B: Broker> Serving<'r, DB, B> {
    pub(super) fn new(runner: &'r Runner<DB, B>, from: &'r B::Subscription, workers: Option<&'r Workers<DB>>) -> Self {
        Self {
            runner,
            from,
            workers,
            held: Held::new(),
            most: runner.held_at_most(),
            running: FuturesUnordered::new(),
            cut: CancellationToken::new(),
            to_settle: Vec::new(),
            stopping: false,
            halted: None,
        }
    }

    /// `failed` counts the subscriptions that brought nothing but errors.
    pub(super) async fn run(mut self, failed: &mut u32) -> Result<(), RunError> {
        let ended = self.serve(failed).await;
        if ended.is_err() {
            // Nobody can be told any more. What has begun is still finished, so that its next delivery is a duplicate; but not for ever.
            self.stop();
            let finished = async { while self.running.next().await.is_some() {} };
            if timeout(LIMIT, finished).await.is_err() {
                tracing::warn!(subscription = &*self.runner.intake.name, "bodies are cut short: their subscription has ended");
            }
        }
        ended
    }

    async fn serve(&mut self, failed: &mut u32) -> Result<(), RunError> {
        let (mut receiving, mut settling): (Option<Receiving<'r, B>>, Option<Settling<'r>>) = (None, None);
        let mut ticks = self.from.terms().lease.map(ticks);
        loop {
            if settling.is_none()
                && let due = self.due(receiving.is_some())
                && !due.is_empty()
            {
                point("before_ack");
                settling = Some(Box::pin(settle(self.from, due, LIMIT)));
            }
            if receiving.is_none() && !self.stopping {
                receiving = self
                    .room()
                    .map(|room| -> Receiving<'r, B> { Box::pin(in_time(RECEIVE_WAIT + LIMIT, self.from.receive(room, RECEIVE_WAIT))) });
            }
            if self.stopping && receiving.is_none() && settling.is_none() && self.running.is_empty() {
                return self.halted.take().map_or(Ok(()), |failure| Err(RunError::Halted { failure }));
            }
            tokio::select! {
                biased;
                answers = ready(&mut settling) => {
                    settling = None;
                    point("after_ack");
                    self.note(answers.map_err(RunError::Broker)?);
                }
                Some((number, done)) = self.running.next() => {
                    self.done(number, done);
                    // Settled together: on some brokers each call is a trip.
                    while let Some(Some((number, done))) = self.running.next().now_or_never() {
                        self.done(number, done);
                    }
                }
                () = self.runner.stop.cancelled(), if !self.stopping => self.stop(),
                () = tick(&mut ticks), if self.held.len() > 0 => self.extend().await?,
                received = ready(&mut receiving) => {
                    receiving = None;
                    let received = received.map_err(RunError::Broker)?;
                    // A subscription that brings nothing but errors is none.
                    *failed = 0;
                    received.into_iter().for_each(|delivery| self.admit(delivery));
                }
            }
        }
    }

    /// What to tell the broker now. At a stop what is given back waits for the last `receive`, which would bring it again.
    fn due(&mut self, receiving: bool) -> Vec<Settle<Handle<B>>> {
        if self.stopping && receiving {
            self.to_settle.extract_if(.., |settle| !settle.gives_back()).collect()
        } else {
            std::mem::take(&mut self.to_settle)
        }
    }

    /// How many deliveries to ask for. Not one by one as each is settled: a call costs a trip, and on some brokers money.
    fn room(&self) -> Option<NonZeroU16> {
        let (held, most) = (u16::try_from(self.held.len()).unwrap_or(u16::MAX), self.most.get());
        if held > most / 2 { None } else { NonZeroU16::new(most.saturating_sub(held)) }
    }

    fn admit(&mut self, delivery: Delivery<Handle<B>>) {
        if self.stopping {
            self.to_settle.push(delivery.retry(Duration::ZERO));
        } else if let Some(number) = self.held.admit(delivery) {
            self.start(number);
        }
    }

    fn start(&mut self, number: u64) {
        let Some(delivery) = self.held.get_mut(number) else { return };
        let route = self.runner.dispatcher.route(delivery, &self.runner.intake);
        let done = self.runner.dispatcher.run_by(route, self.workers, self.cut.clone());
        self.running.push(Box::pin(async move { (number, done.await) }));
    }

    /// Finishes what has begun, gives the rest back.
    fn stop(&mut self) {
        self.stopping = true;
        if let Some(workers) = self.workers {
            workers.withdraw();
        }
        let waiting = self.held.waiting();
        self.to_settle.extend(waiting.into_iter().map(|delivery| delivery.retry(Duration::ZERO)));
    }

    fn done(&mut self, number: u64, done: Dispatched) {
        if !done.failures.is_empty() {
            return self.again(number, done);
        }
        let Some((delivery, next)) = self.held.finish(number) else { return };
        match delivery.ack(done.receipts) {
            Ok(settle) => {
                self.to_settle.push(settle);
                if let Some(next) = next {
                    self.start(next);
                }
            }
            // Not reachable: the dispatcher gives one receipt or one failure for each ticket. The message comes again.
            Err(unproven) => {
                tracing::error!(id = ?done.id, error = %unproven, "not acked");
                self.to_settle.push(unproven.delivery.retry(self.runner.retry.longest));
                if let Some((first, behind)) = next.and_then(|next| self.held.give_back(next)) {
                    let behind = std::iter::once(first).chain(behind);
                    self.to_settle.extend(behind.map(|delivery| delivery.retry(Duration::ZERO)));
                }
            }
        }
    }

    /// A message that is not done with comes again, and what is ordered behind it follows it.
    fn again(&mut self, number: u64, done: Dispatched) {
        let Dispatched { mut failures, id, .. } = done;
        let Some((delivery, behind)) = self.held.give_back(number) else { return };
        let attempt = delivery.origin().attempt;
        let withdrawn = self.stopping && failures.iter().all(|failure| matches!(failure.error, ProcessError::Cancelled));
        let after = if withdrawn { Duration::ZERO } else { self.runner.retry.after(attempt.unwrap_or(1)) };
        if !withdrawn {
            for failure in &failures {
                tracing::warn!(consumer = failure.consumer, ?id, attempt, ?after, "{failure}; it comes again");
            }
        }
        self.to_settle.push(delivery.retry(after));
        self.to_settle.extend(behind.into_iter().map(|delivery| delivery.retry(Duration::ZERO)));
        let halts =
            |failure: &ConsumerFailure| failure.error.kind() == FailureKind::Halting || matches!(failure.error, ProcessError::Halted);
        if let Some(i) = failures.iter().position(halts) {
            self.halted.get_or_insert(failures.swap_remove(i));
            if !self.stopping {
                self.stop();
            }
        }
    }

    /// Keeps every delivery that is held. What is done is settled whatever becomes of this, in its time.
    async fn extend(&mut self) -> Result<(), RunError> {
        let every = self.from.terms().lease.map(third).unwrap_or(LIMIT);
        match timeout(every, self.from.extend(&self.held.all())).await {
            Ok(extended) => extended.map_err(RunError::Broker),
            Err(_) => {
                tracing::warn!(subscription = &*self.runner.intake.name, "no answer to an extension within {every:?}");
                Ok(())
            }
        }
    }

    fn note(&self, answers: Vec<Settled>) {
        let subscription = &*self.runner.intake.name;
        for answer in answers {
            match answer {
                Settled::Sent => {}
                Settled::Late => tracing::info!(subscription, "settled too late; the message comes again"),
                Settled::Failed(error) => {
                    tracing::warn!(subscription, %error, "the broker did not take a settle; the message comes again");
                }
            }
        }
    }
}

/// What is under way still comes to its end, cut short: an escape must be dealt with, and a commit is not to be left in the middle.
impl<DB: InboxDatabase, B: Broker> Drop for Serving<'_, DB, B> {
    fn drop(&mut self) {
        self.cut.cancel();
        let mut running = std::mem::take(&mut self.running);
        if !running.is_empty()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move { while running.next().await.is_some() {} });
        }
    }
}

pub(super) async fn in_time<T>(limit: Duration, call: impl Future<Output = Result<T, BrokerError>>) -> Result<T, BrokerError> {
    timeout(limit, call).await.map_err(BrokerError::unavailable)?
}

/// Pending for ever where there is nothing to wait for.
async fn ready<T>(what: &mut Option<Pin<Box<dyn Future<Output = T> + Send + '_>>>) -> T {
    match what {
        Some(what) => what.await,
        None => std::future::pending().await,
    }
}

fn third(lease: Duration) -> Duration {
    (lease / 3).max(Duration::from_millis(10))
}

fn ticks(lease: Duration) -> Interval {
    let mut ticks = interval(third(lease));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.reset();
    ticks
}

async fn tick(ticks: &mut Option<Interval>) {
    match ticks {
        Some(ticks) => drop(ticks.tick().await),
        None => std::future::pending().await,
    }
}
