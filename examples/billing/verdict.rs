//! What has to stand in the database, and what stands there.

use std::collections::{BTreeMap, HashMap};

use sqlx::{AnyConnection, Connection, Row, query};

use crate::{
    Error,
    events::{ACCOUNTS, Event, OrderPlaced, SKUS},
    handlers::NAMES,
    place::{STOCK, connect},
    protocol::Job,
};

pub(crate) struct Verdict {
    /// Accounts in cents and articles in units: expected and actual.
    pub(crate) accounts: Vec<(i64, Balance)>,
    pub(crate) stock: Vec<(&'static str, Balance)>,
    /// How often a consumer has done its work.
    pub(crate) applied: u64,
    /// How often it had to: consumers times different events.
    pub(crate) wanted: u64,
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    /// Those of the doubled that were published once: it was a kill.
    pub(crate) doubled_by_kill: u64,
    pub(crate) events: u64,
    /// Some of the lost and the doubled: order, consumer, how often applied.
    pub(crate) examples: Vec<(OrderPlaced, &'static str, u64)>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Balance {
    pub(crate) expected: i64,
    pub(crate) actual: i64,
}

impl Verdict {
    pub(crate) async fn read(job: &Job, published: &[Event]) -> Result<Self, Error> {
        const EXAMPLES: usize = 5;
        let mut db = connect(&job.url).await?;
        let balances: HashMap<i64, i64> = pairs(&mut db, "SELECT id, balance_cents FROM accounts").await?;
        let units: HashMap<String, i64> = pairs(&mut db, "SELECT sku, units FROM stock").await?;
        let ledger = ledger(&mut db).await?;
        db.close().await?;

        let mut sends: BTreeMap<&str, (&Event, u32)> = BTreeMap::new();
        published.iter().for_each(|event| sends.entry(&event.event_id).or_insert((event, 0)).1 += 1);
        let orders = || sends.values().map(|(event, _)| &event.order);
        let account = |id: i64| Balance {
            expected: orders().filter(|order| order.account_id == id).map(|order| order.amount_cents).sum(),
            actual: balances.get(&id).copied().unwrap_or_default(),
        };
        let article = |sku: &str| Balance {
            expected: STOCK - orders().filter(|order| order.sku == sku).map(|order| order.quantity).sum::<i64>(),
            actual: units.get(sku).copied().unwrap_or_default(),
        };
        let mut verdict = Self {
            accounts: (1..=ACCOUNTS).map(|id| (id, account(id))).collect(),
            stock: SKUS.iter().map(|sku| (*sku, article(sku))).collect(),
            applied: ledger.values().sum(),
            wanted: (sends.len() * NAMES.len()) as u64,
            lost: 0,
            doubled: 0,
            doubled_by_kill: 0,
            events: sends.len() as u64,
            examples: Vec::new(),
        };
        for ((event, sends), name) in sends.values().flat_map(|send| NAMES.map(|name| (send, name))) {
            let times = ledger.get(&(name.to_owned(), event.event_id.clone())).copied().unwrap_or_default();
            verdict.lost += u64::from(times == 0);
            verdict.doubled += times.saturating_sub(1);
            verdict.doubled_by_kill += if *sends == 1 { times.saturating_sub(1) } else { 0 };
            // Of a fault, those are shown that a kill made.
            if (times == 0 || times > 1 && *sends == 1) && verdict.examples.len() < EXAMPLES {
                verdict.examples.push((event.order.clone(), name, times));
            }
        }
        Ok(verdict)
    }

    /// Whether every balance is what it has to be, and every consumer has done its work once for each event.
    pub(crate) fn is_right(&self) -> bool {
        let mut balances = self.accounts.iter().map(|(_, balance)| balance).chain(self.stock.iter().map(|(_, balance)| balance));
        balances.all(|balance| balance.expected == balance.actual) && self.lost == 0 && self.doubled == 0 && self.applied == self.wanted
    }
}

async fn pairs<K>(db: &mut AnyConnection, sql: &'static str) -> Result<HashMap<K, i64>, Error>
where
    K: Eq + std::hash::Hash + for<'r> sqlx::Decode<'r, sqlx::Any> + sqlx::Type<sqlx::Any>,
{
    query(sql).fetch_all(db).await?.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// How often each consumer has done its work for each event.
async fn ledger(db: &mut AnyConnection) -> Result<HashMap<(String, String), u64>, Error> {
    let rows = query("SELECT consumer, event_id, COUNT(*) FROM ledger GROUP BY consumer, event_id").fetch_all(db).await?;
    rows.iter().map(|row| Ok(((row.try_get(0)?, row.try_get(1)?), u64::try_from(row.try_get::<i64, _>(2)?)?))).collect()
}
