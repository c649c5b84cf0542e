//! The orders: made from a seed, written as JSON lines by the "outbox relay", read back by the broker.

use std::{
    fs::File,
    io::{BufRead, BufReader, BufWriter, Write},
    path::Path,
};

use serde::{Deserialize, Serialize};

use crate::Error;

pub(crate) const ACCOUNTS: i64 = 8;
pub(crate) const SKUS: [&str; 4] = ["desk-lamp", "kettle", "notebook", "umbrella"];

/// The payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OrderPlaced {
    pub(crate) order_no: String,
    pub(crate) account_id: i64,
    pub(crate) amount_cents: i64,
    pub(crate) sku: String,
    pub(crate) quantity: i64,
}

/// One line of the file. The id is the producer's, copied from its outbox: published twice, it is the same twice.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Event {
    pub(crate) event_id: String,
    pub(crate) order: OrderPlaced,
}

/// Writes `count` different orders in the order of their publication; a quarter of them is published twice: the relay died before
/// it had noted that it had sent them.
pub(crate) fn write(path: &Path, count: u32, seed: u64) -> Result<(), Error> {
    let mut random = fastrand::Rng::with_seed(seed);
    let events: Vec<Event> = (0..count).map(|i| make(i, &mut random)).collect();
    let mut sends: Vec<(u32, &Event)> = Vec::new();
    for (at, event) in (0..).zip(&events) {
        sends.push((at, event));
        if random.f64() < 0.25 {
            sends.push((at + random.u32(1..=count / 5 + 1), event));
        }
    }
    sends.sort_by_key(|(at, _)| *at);
    let mut file = BufWriter::new(File::create(path)?);
    for (_, event) in sends {
        serde_json::to_writer(&mut file, event)?;
        file.write_all(b"\n")?;
    }
    file.flush()?;
    Ok(())
}

pub(crate) fn read(path: &Path) -> Result<Vec<Event>, Error> {
    BufReader::new(File::open(path)?).lines().map(|line| Ok(serde_json::from_str(&line?)?)).collect()
}

fn make(number: u32, random: &mut fastrand::Rng) -> Event {
    const FIRST: u64 = 1_767_258_000_000; // the morning of 1 January 2026
    let bytes = std::array::from_fn(|_| random.u8(..));
    let id = uuid::Builder::from_unix_timestamp_millis(FIRST + u64::from(number) * 37, &bytes).into_uuid();
    let order = OrderPlaced {
        order_no: format!("A-{number:06}"),
        account_id: random.i64(1..=ACCOUNTS),
        amount_cents: random.i64(199..=24_999),
        sku: SKUS[random.usize(..SKUS.len())].to_owned(),
        quantity: random.i64(1..=5),
    };
    Event { event_id: id.to_string(), order }
}
