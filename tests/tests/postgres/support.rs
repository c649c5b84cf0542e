//! Consumers whose body each test writes, and questions to the database.

use std::{fmt, num::NonZeroU16, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use inbox_runtime::{
    Dispatcher, IdFrom, Intake, Message, MessageId, Outcome, ProcessError, Reply, RunError, Runner, State, Uuid,
    broker::{Broker, Memory, Subscription},
    idempotent_consumer,
};
use sqlx::{AssertSqlSafe, PgConnection, PgExecutor, PgPool, Postgres, Transaction};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

pub(super) type Failure = Box<dyn std::error::Error + Send + Sync>;
pub(super) type Ended = Result<(), Failure>;
pub(super) type Called = Result<Outcome<()>, ProcessError<Failure>>;

type Body = dyn for<'a, 'c> Fn(&'a mut Transaction<'c, Postgres>, MessageId) -> BoxFuture<'a, Ended> + Send + Sync;

/// What a consumer of this file does.
#[derive(Clone)]
pub(super) struct Script(pub(super) Arc<Body>);

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Script")
    }
}

pub(super) fn script<F>(body: F) -> State<Script>
where
    F: for<'a, 'c> Fn(&'a mut Transaction<'c, Postgres>, MessageId) -> BoxFuture<'a, Ended> + Send + Sync + 'static,
{
    State(Script(Arc::new(body)))
}

#[idempotent_consumer(name = "billing", topic = "orders")]
pub(super) async fn billing(tx: &mut Transaction<'_, Postgres>, id: MessageId, State(Script(body)): State<Script>) -> Ended {
    body(tx, id).await
}

#[idempotent_consumer(name = "shipping", topic = "orders")]
pub(super) async fn shipping(tx: &mut Transaction<'_, Postgres>, id: MessageId) -> Result<(), sqlx::Error> {
    note(tx, "shipping", id).await
}

#[idempotent_consumer(name = "impatient", timeout = "300ms")]
pub(super) async fn impatient(tx: &mut Transaction<'_, Postgres>, id: MessageId, State(Script(body)): State<Script>) -> Ended {
    body(tx, id).await
}

#[idempotent_consumer(name = "answering")]
pub(super) async fn answering(
    tx: &mut Transaction<'_, Postgres>,
    id: MessageId,
    State(Script(body)): State<Script>,
) -> Result<Reply<String>, Failure> {
    body(tx, id).await?;
    note(tx, "answering", id).await?;
    Ok(Reply(format!("answer to {id}")))
}

/// A body that notes that it ran, and nothing else.
pub(super) fn noting() -> State<Script> {
    script(|tx, id| Box::pin(async move { Ok(note(tx, "billing", id).await?) }))
}

/// The effect of a body: a row, so that twice is two.
pub(super) async fn note(conn: &mut PgConnection, consumer: &str, id: MessageId) -> Result<(), sqlx::Error> {
    let insert = sqlx::query("INSERT INTO applied (consumer, message_id) VALUES ($1, $2)");
    insert.bind(consumer).bind(id.to_string()).execute(conn).await.map(drop)
}

pub(super) fn new_id() -> MessageId {
    MessageId::try_from(Uuid::now_v7()).expect("an id")
}

/// How often this consumer's effect stands in the database.
pub(super) async fn applied(pool: &PgPool, consumer: &str, id: MessageId) -> i64 {
    let count = sqlx::query_scalar("SELECT count(*) FROM applied WHERE consumer = $1 AND message_id = $2");
    count.bind(consumer).bind(id.to_string()).fetch_one(pool).await.expect("the ledger answers")
}

pub(super) async fn claimed(pool: &PgPool, consumer: &str, id: MessageId) -> i64 {
    let count = sqlx::query_scalar("SELECT count(*) FROM public.inbox WHERE consumer_name = $1 AND message_id = $2");
    count.bind(consumer).bind(id.as_uuid()).fetch_one(pool).await.expect("the inbox answers")
}

/// One effect and one inbox row.
#[track_caller]
pub(super) fn assert_once(pool: &PgPool, consumer: &'static str, id: MessageId) -> BoxFuture<'static, ()> {
    assert_counts(pool, consumer, id, 1)
}

/// Neither effect nor inbox row: as if the message had never come.
#[track_caller]
pub(super) fn assert_untouched(pool: &PgPool, consumer: &'static str, id: MessageId) -> BoxFuture<'static, ()> {
    assert_counts(pool, consumer, id, 0)
}

#[track_caller]
fn assert_counts(pool: &PgPool, consumer: &'static str, id: MessageId, wanted: i64) -> BoxFuture<'static, ()> {
    let (pool, caller) = (pool.clone(), std::panic::Location::caller());
    Box::pin(async move {
        let found = (applied(&pool, consumer, id).await, claimed(&pool, consumer, id).await);
        assert_eq!(found, (wanted, wanted), "(effects, inbox rows) of `{consumer}` at {caller}");
    })
}

#[derive(Debug, sqlx::FromRow)]
pub(super) struct Letter {
    pub(super) consumer_name: Option<String>,
    pub(super) message_id: Option<Uuid>,
    pub(super) reason: String,
    pub(super) error: String,
    pub(super) topic: String,
    pub(super) message_key: Option<Vec<u8>>,
    pub(super) headers: String,
    pub(super) payload: Option<Vec<u8>>,
}

pub(super) async fn letters(pool: &PgPool) -> Vec<Letter> {
    let all =
        "SELECT consumer_name, message_id, reason, error, topic, message_key, headers, payload FROM public.inbox_dead_letter ORDER BY id";
    sqlx::query_as(all).fetch_all(pool).await.expect("the dead letters")
}

/// A session of this database waits for a lock.
pub(super) const WAITING: &str =
    "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')";

/// Asks until the answer is yes. Generous: only a wrong program waits that long.
pub(super) async fn until(pool: &PgPool, what: &str) {
    let asked = async {
        while !yes(pool, what).await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), asked).await.unwrap_or_else(|_| panic!("never true: {what}"));
}

/// As [`until`], of something in this process.
pub(super) async fn eventually(what: impl Fn() -> bool) {
    let asked = async {
        while !what() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), asked).await.expect("it becomes true");
}

pub(super) async fn yes(on: impl PgExecutor<'_>, what: &str) -> bool {
    sqlx::query_scalar(AssertSqlSafe(what.to_owned())).persistent(false).fetch_one(on).await.expect("an answer")
}

/// SQL of the test itself.
pub(super) async fn run(on: impl PgExecutor<'_>, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(on).await.unwrap_or_else(|e| panic!("{e}: {sql}"));
}

/// As [`run`], within a body: its error is the body's.
pub(super) async fn raw(tx: &mut PgConnection, sql: &str) -> Ended {
    Ok(sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(tx).await.map(drop)?)
}

pub(super) fn order(id: MessageId, payload: &'static str) -> Message {
    Message::new("orders", payload).with_header("id", id.to_string())
}

pub(super) fn intake() -> Intake {
    Intake::new("orders", IdFrom::header("id"))
}

pub(super) async fn dispatcher(pool: &PgPool, body: State<Script>, only: &[&str]) -> Dispatcher<Postgres> {
    Dispatcher::builder(pool).only(only.iter().copied()).state(body.0).build().await.expect("a dispatcher")
}

/// A runner that is at work; dropping it stops it.
pub(super) struct Running {
    stop: DropGuard,
    task: JoinHandle<Result<(), RunError>>,
}

pub(super) fn serve(dispatcher: Dispatcher<Postgres>, broker: &Memory, intake: Intake) -> Running {
    Running::start(|stop| {
        let runner = Runner::new(dispatcher, broker.clone(), intake).stop_on(stop);
        runner.retry(Duration::from_millis(5), Duration::from_millis(50)).run()
    })
}

impl Running {
    pub(super) fn start<F: Future<Output = Result<(), RunError>> + Send + 'static>(run: impl FnOnce(CancellationToken) -> F) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(run(stop.clone()));
        Self { stop: stop.drop_guard(), task }
    }

    /// Waits until the broker holds nothing any more.
    pub(super) async fn drain(&self, broker: &Memory) {
        let drained = async {
            while !broker.is_empty() {
                assert!(!self.task.is_finished(), "the runner ended early");
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), drained).await.expect("all is settled");
    }

    pub(super) async fn stop(self) -> Result<(), RunError> {
        drop(self.stop);
        self.task.await.expect("the runner does not panic")
    }

    /// Its own end, without being told to.
    pub(super) async fn end(self) -> Result<(), RunError> {
        let ended = tokio::time::timeout(Duration::from_secs(30), self.task).await;
        ended.expect("the runner ends by itself").expect("the runner does not panic")
    }
}

/// One delivery through the dispatcher; what the consumers that failed have to say. It is given back either way.
pub(super) async fn dispatch_one(dispatcher: &Dispatcher<Postgres>, broker: &Memory) -> Vec<String> {
    let subscription = broker.subscribe(NonZeroU16::MIN).await.expect("the broker is up");
    let mut deliveries = subscription.receive(NonZeroU16::MIN, Duration::from_secs(1)).await.expect("the broker is up");
    let mut delivery = deliveries.pop().expect("a delivery");
    let done = dispatcher.dispatch(&mut delivery, &intake()).await;
    done.failures.iter().map(ToString::to_string).collect()
}
