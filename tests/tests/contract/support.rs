//! A consumer whose body each test writes, and a queue of numbered messages.

use std::{
    fmt,
    future::Future,
    num::NonZeroU16,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::BoxFuture;
use inbox_runtime::{
    Dispatcher, IdFrom, Inbox, Intake, Message, MessageId, RunError, Runner, State, Uuid,
    broker::{Broker, Delivery, Memory, MemoryHandle, MemorySubscription, Settle, Settled, Subscription, settle},
    idempotent_consumer,
};
use sqlx::{Sqlite, SqlitePool, Transaction};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

pub(super) type Failure = Box<dyn std::error::Error + Send + Sync>;

type Body = dyn Fn(u128) -> BoxFuture<'static, Result<(), Failure>> + Send + Sync;

/// What a body does with a message's number before it writes.
#[derive(Clone)]
pub(super) struct Script(Arc<Body>);

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Script")
    }
}

pub(super) fn script<F, R>(body: F) -> Script
where
    F: Fn(u128) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), Failure>> + Send + 'static,
{
    Script(Arc::new(move |number| Box::pin(body(number))))
}

pub(super) fn noting() -> Script {
    script(|_| async { Ok(()) })
}

/// Where the order in which messages are applied is kept.
#[idempotent_consumer(name = "contract.ledger", topic = "orders")]
pub(super) async fn ledger(tx: &mut Transaction<'_, Sqlite>, id: MessageId, State(Script(body)): State<Script>) -> Result<(), Failure> {
    body(id.as_uuid().as_u128()).await?;
    let insert = sqlx::query("INSERT INTO applied (consumer, message_id) VALUES ('contract.ledger', ?1)");
    insert.bind(id.as_uuid().as_u128().to_string()).execute(&mut **tx).await?;
    Ok(())
}

/// The numbers that were applied, in their order.
pub(super) async fn applied(pool: &SqlitePool) -> Vec<u128> {
    let all = sqlx::query_scalar("SELECT message_id FROM applied WHERE consumer = 'contract.ledger' ORDER BY rowid");
    let all: Vec<String> = all.fetch_all(pool).await.expect("the ledger");
    all.iter().map(|number| number.parse().expect("a number")).collect()
}

/// In memory, so that nothing waits for a disk; these tests are about the broker.
pub(super) async fn pool() -> (SqlitePool, Inbox<Sqlite>) {
    let pool = inbox_runtime::sqlite::pool_options().connect("sqlite::memory:").await.expect("a database in memory");
    sqlx::raw_sql("CREATE TABLE applied (consumer TEXT NOT NULL, message_id TEXT NOT NULL)").execute(&pool).await.expect("the ledger");
    let inbox = Inbox::builder(pool.clone()).allow_unsafe_durability(true).build().expect("an inbox");
    inbox.migrate().await.expect("migrated");
    (pool, inbox)
}

pub(super) async fn dispatcher(inbox: &Inbox<Sqlite>, body: Script) -> Dispatcher<Sqlite> {
    Dispatcher::builder(inbox).only(["contract.ledger"]).state(body).build().await.expect("a dispatcher")
}

/// The message with this number, which is its id.
pub(super) fn numbered(number: u128) -> Message {
    Message::new("orders", "{}").with_header("id", Uuid::from_u128(number).to_string())
}

pub(super) fn number(message: &Message) -> u128 {
    let id = message.headers.text("id").expect("a header").expect("an id");
    id.parse::<Uuid>().expect("a UUID").as_u128()
}

pub(super) fn intake() -> Intake {
    Intake::new("orders", IdFrom::header("id"))
}

pub(super) fn some(n: u16) -> NonZeroU16 {
    NonZeroU16::new(n).expect("more than none")
}

pub(super) async fn subscribe(broker: &Memory, prefetch: u16) -> MemorySubscription {
    broker.subscribe(some(prefetch)).await.expect("the broker is up")
}

/// What is there now.
pub(super) async fn receive(from: &MemorySubscription) -> Vec<Delivery<MemoryHandle>> {
    from.receive(some(1_000), Duration::ZERO).await.expect("the broker is up")
}

pub(super) fn numbers(deliveries: &[Delivery<MemoryHandle>]) -> Vec<u128> {
    deliveries.iter().map(|delivery| number(delivery.message())).collect()
}

pub(super) async fn tell(to: &MemorySubscription, settles: Vec<Settle<MemoryHandle>>) -> Vec<Settled> {
    settle(to, settles, Duration::from_secs(10)).await.expect("the broker is up")
}

/// A list that a body or a broker writes to.
#[derive(Clone)]
pub(super) struct Log<T>(Arc<Mutex<Vec<T>>>);

impl<T: Clone> Log<T> {
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    pub(super) fn push(&self, item: T) {
        self.0.lock().expect("not poisoned").push(item);
    }

    pub(super) fn items(&self) -> Vec<T> {
        self.0.lock().expect("not poisoned").clone()
    }
}

/// A runner that is at work; dropping it stops it.
pub(super) struct Running {
    stop: DropGuard,
    task: JoinHandle<Result<(), RunError>>,
}

pub(super) fn serve(dispatcher: Dispatcher<Sqlite>, broker: impl Broker, intake: Intake) -> Running {
    serve_with(dispatcher, broker, intake, |runner| runner)
}

pub(super) fn serve_with<B: Broker>(
    dispatcher: Dispatcher<Sqlite>,
    broker: B,
    intake: Intake,
    settings: impl FnOnce(Runner<Sqlite, B>) -> Runner<Sqlite, B>,
) -> Running {
    let stop = CancellationToken::new();
    let runner = Runner::new(dispatcher, broker, intake).stop_on(stop.clone());
    let runner = settings(runner.retry(Duration::from_millis(2), Duration::from_millis(20)));
    Running { stop: stop.drop_guard(), task: tokio::spawn(runner.run()) }
}

/// A wrong program waits for ever; no right one takes this long.
pub(super) async fn bounded<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), what).await.expect("it ends")
}

/// Looks again and again.
pub(super) async fn until(what: impl Fn() -> bool) {
    bounded(async {
        while !what() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

impl Running {
    pub(super) async fn drain(&self, broker: &Memory) {
        until(|| broker.is_empty() || self.task.is_finished()).await;
        assert!(!self.task.is_finished(), "the runner ended early");
    }

    pub(super) async fn stop(self) -> Result<(), RunError> {
        drop(self.stop);
        bounded(self.task).await.expect("the runner does not panic")
    }
}
