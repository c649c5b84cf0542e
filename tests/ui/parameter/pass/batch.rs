//! Many messages at once, on both databases, with all that a parameter may be, and a direct call, which is one.
use inbox_runtime::{Bytes, Header, Inbox, Json, Key, MessageId, NamedHeader, Outcome, ProcessError, Reply, State, idempotent_consumer};
use sqlx::{Postgres, Sqlite, Transaction};

#[derive(serde::Deserialize)]
struct Order {
    cents: i64,
}

struct Tenant(#[allow(dead_code)] u32);

impl std::str::FromStr for Tenant {
    type Err = std::num::ParseIntError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl NamedHeader for Tenant {
    const NAME: &'static str = "tenant";
}

#[idempotent_consumer(name = "ledger", topic = "orders", batch = 500, linger = "5ms", timeout = "10s", aliases = ["books"])]
async fn post(tx: &mut Transaction<'_, Postgres>, orders: Vec<Json<Order>>) -> Result<(), sqlx::Error> {
    let cents: Vec<i64> = orders.iter().map(|Json(order)| order.cents).collect();
    sqlx::query("INSERT INTO postings SELECT unnest($1)").bind(cents).execute(&mut **tx).await.map(drop)
}

#[idempotent_consumer(name = "answers", batch = 2)]
pub(crate) async fn answers(
    tx: &mut Transaction<'_, Sqlite>,
    mut ids: std::vec::Vec<MessageId>,
    _tenants: Vec<Option<Header<Tenant>>>,
    _: Vec<Bytes>,
    _keys: Vec<Option<Key>>,
    State(rate): State<u32>,
) -> Result<Vec<Reply<(String, u32)>>, Box<dyn std::error::Error + Send + Sync>> {
    sqlx::query("SELECT 1").execute(&mut **tx).await?;
    Ok(ids.drain(..).map(|id| Reply((id.to_string(), rate))).collect())
}

pub async fn call(pool: sqlx::PgPool, id: MessageId) -> Result<Outcome<()>, ProcessError<sqlx::Error>> {
    post(&pool, id, Json(Order { cents: 1 })).await
}

pub async fn ask(inbox: Inbox<Sqlite>, id: MessageId) -> Option<(String, u32)> {
    let answered = tokio::spawn(answers(&inbox, id, id, None, Bytes::new(), None, State(3))).await.ok()?;
    answered.ok().map(Outcome::into_inner)
}

fn main() {
    let _ = (post::NAME, answers::registration(), call, ask);
}
