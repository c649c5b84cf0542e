//! Consumers whose body each test writes, and questions to the database.

use std::{fmt, num::NonZeroU16, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use inbox_runtime::{
    Dispatcher, IdFrom, Inbox, Intake, Message, MessageId, Outcome, ProcessError, Reply, RunError, Runner, State, Uuid, broker::Memory,
    idempotent_consumer, sqlite,
};
use sqlx::{AssertSqlSafe, Sqlite, SqliteConnection, SqliteExecutor, SqlitePool, Transaction, sqlite::SqliteConnectOptions};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

pub(super) type Failure = Box<dyn std::error::Error + Send + Sync>;
pub(super) type Ended = Result<(), Failure>;
pub(super) type Called = Result<Outcome<()>, ProcessError<Failure>>;

type Body = dyn for<'a, 'c> Fn(&'a mut Transaction<'c, Sqlite>, MessageId) -> BoxFuture<'a, Ended> + Send + Sync;

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
    F: for<'a, 'c> Fn(&'a mut Transaction<'c, Sqlite>, MessageId) -> BoxFuture<'a, Ended> + Send + Sync + 'static,
{
    State(Script(Arc::new(body)))
}

#[idempotent_consumer(name = "billing", topic = "orders")]
pub(super) async fn billing(tx: &mut Transaction<'_, Sqlite>, id: MessageId, State(Script(body)): State<Script>) -> Ended {
    body(tx, id).await
}

#[idempotent_consumer(name = "shipping", topic = "orders")]
pub(super) async fn shipping(tx: &mut Transaction<'_, Sqlite>, id: MessageId) -> Result<(), sqlx::Error> {
    note(tx, "shipping", id).await
}

#[idempotent_consumer(name = "answering", topic = "questions")]
pub(super) async fn answering(
    tx: &mut Transaction<'_, Sqlite>,
    id: MessageId,
    State(Script(body)): State<Script>,
) -> Result<Reply<String>, Failure> {
    body(tx, id).await?;
    let run = note_and_count(tx, "answering", id).await?;
    Ok(Reply(format!("run {run} of {id}")))
}

/// A body that notes that it ran, and nothing else.
pub(super) fn noting() -> State<Script> {
    script(|tx, id| Box::pin(async move { Ok(note(tx, "billing", id).await?) }))
}

/// The effect of a body: a row, so that twice is two.
pub(super) async fn note(conn: &mut SqliteConnection, consumer: &str, id: MessageId) -> Result<(), sqlx::Error> {
    let insert = sqlx::query("INSERT INTO applied (consumer, message_id) VALUES (?1, ?2)");
    insert.bind(consumer).bind(id.to_string()).execute(conn).await.map(drop)
}

async fn note_and_count(conn: &mut SqliteConnection, consumer: &str, id: MessageId) -> Result<i64, sqlx::Error> {
    note(conn, consumer, id).await?;
    let count = sqlx::query_scalar("SELECT count(*) FROM applied WHERE consumer = ?1");
    count.bind(consumer).fetch_one(conn).await
}

pub(super) fn new_id() -> MessageId {
    MessageId::try_from(Uuid::now_v7()).expect("an id")
}

/// Another pool on the file of this one, as another process has it; a busy writer is waited for as long as `patience`.
pub(super) async fn beside(pool: &SqlitePool, patience: Duration) -> SqlitePool {
    let options: SqliteConnectOptions = pool.connect_options().as_ref().clone();
    sqlite::pool_options().max_connections(1).connect_with(options.busy_timeout(patience)).await.expect("a pool on the same file")
}

/// An inbox that shares nothing with others of this process, and whose bodies may take 100 ms.
pub(super) fn impatient(pool: &SqlitePool) -> Inbox<Sqlite> {
    Inbox::builder(pool.clone()).body_timeout(Duration::from_millis(100)).build().expect("an inbox")
}

/// (effects, inbox rows) of a consumer for an id.
pub(super) async fn counts(pool: &SqlitePool, consumer: &str, id: MessageId) -> (i64, i64) {
    let effects = sqlx::query_scalar("SELECT count(*) FROM applied WHERE consumer = ?1 AND message_id = ?2");
    let effects = effects.bind(consumer).bind(id.to_string()).fetch_one(pool).await.expect("the ledger answers");
    let rows = sqlx::query_scalar("SELECT count(*) FROM main.inbox WHERE consumer_name = ?1 AND message_id = ?2");
    (effects, rows.bind(consumer).bind(id.as_uuid()).fetch_one(pool).await.expect("the inbox answers"))
}

/// One effect and one inbox row.
#[track_caller]
pub(super) fn assert_once(pool: &SqlitePool, consumer: &'static str, id: MessageId) -> BoxFuture<'static, ()> {
    assert_counts(pool, consumer, id, 1)
}

/// Neither effect nor inbox row: as if the message had never come.
#[track_caller]
pub(super) fn assert_untouched(pool: &SqlitePool, consumer: &'static str, id: MessageId) -> BoxFuture<'static, ()> {
    assert_counts(pool, consumer, id, 0)
}

#[track_caller]
fn assert_counts(pool: &SqlitePool, consumer: &'static str, id: MessageId, wanted: i64) -> BoxFuture<'static, ()> {
    let (pool, caller) = (pool.clone(), std::panic::Location::caller());
    Box::pin(async move {
        let found = counts(&pool, consumer, id).await;
        assert_eq!(found, (wanted, wanted), "(effects, inbox rows) of `{consumer}` at {caller}");
    })
}

/// (reason, consumer, id) of each dead letter.
pub(super) async fn letters(pool: &SqlitePool) -> Vec<(String, Option<String>, Option<Uuid>)> {
    let all = "SELECT reason, consumer_name, message_id FROM main.inbox_dead_letter ORDER BY id";
    sqlx::query_as(all).fetch_all(pool).await.expect("the dead letters")
}

pub(super) async fn number(on: impl SqliteExecutor<'_>, sql: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(on).await.unwrap_or_else(|e| panic!("{e}: {sql}"))
}

/// SQL of the test itself.
pub(super) async fn run(on: impl SqliteExecutor<'_>, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(on).await.unwrap_or_else(|e| panic!("{e}: {sql}"));
}

/// As [`run`], within a body: its error is the body's.
pub(super) async fn raw(tx: &mut SqliteConnection, sql: &str) -> Ended {
    Ok(sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(tx).await.map(drop)?)
}

/// A wrong program waits for ever; no right one takes this long.
pub(super) async fn bounded<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), what).await.expect("it ends")
}

pub(super) fn order(id: MessageId) -> Message {
    Message::new("orders", "{}").with_header("id", id.to_string())
}

pub(super) fn intake() -> Intake {
    Intake::new("orders", IdFrom::header("id"))
}

pub(super) async fn dispatcher(pool: &SqlitePool, body: State<Script>, only: &[&str]) -> Dispatcher<Sqlite> {
    Dispatcher::builder(pool).only(only.iter().copied()).state(body.0).build().await.expect("a dispatcher")
}

/// A runner that is at work; dropping it stops it.
pub(super) struct Running {
    stop: DropGuard,
    task: JoinHandle<Result<(), RunError>>,
}

pub(super) fn serve(dispatcher: Dispatcher<Sqlite>, broker: &Memory) -> Running {
    // Few are lost with a subscription, or a broker that doubles what it delivers has more to deliver each time.
    serve_with(dispatcher, broker, |runner| runner.prefetch(NonZeroU16::MIN.saturating_add(3)))
}

pub(super) fn serve_with(
    dispatcher: Dispatcher<Sqlite>,
    broker: &Memory,
    settings: impl FnOnce(Runner<Sqlite, Memory>) -> Runner<Sqlite, Memory>,
) -> Running {
    let stop = CancellationToken::new();
    let runner = Runner::new(dispatcher, broker.clone(), intake()).stop_on(stop.clone());
    let runner = settings(runner.retry(Duration::from_millis(5), Duration::from_millis(50)));
    Running { stop: stop.drop_guard(), task: tokio::spawn(runner.run()) }
}

impl Running {
    /// Waits until the broker holds nothing any more.
    pub(super) async fn drain(&self, broker: &Memory) {
        bounded(async {
            while !broker.is_empty() {
                assert!(!self.task.is_finished(), "the runner ended early");
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
    }

    pub(super) async fn stop(self) -> Result<(), RunError> {
        drop(self.stop);
        bounded(self.task).await.expect("the runner does not panic")
    }

    /// Its own end, without being told to.
    pub(super) async fn end(self) -> Result<(), RunError> {
        bounded(self.task).await.expect("the runner does not panic")
    }
}

/// The safe entry, with everything owned: to be spawned.
pub(super) async fn call(inbox: Inbox<Sqlite>, id: MessageId, body: State<Script>) -> Called {
    billing(&inbox, id, id, body).await
}
