//! What is in the inbox already, and of what kind its ids are: ours against ours.

use std::num::NonZeroU16;

use sqlx::Connection;

use crate::{
    field::{CONSUMER, Field, Ids, Mix},
    measure::compare,
    options::Options,
    ours::Ours,
    report::{Figure, Report},
};

const MESSAGES: usize = 1_500;
/// Enough for a key that is no longer a few pages.
const OF_EACH_KIND: u32 = 300_000;

pub(crate) async fn compare_all(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let (key, about, rows) = if options.quick {
        ("rows_300k", "A runner on 300 thousand inbox rows, against an empty inbox", 300_000)
    } else {
        ("rows_10m", "A runner on 10 million inbox rows, against an empty inbox", 10_000_000)
    };
    if options.wants(&[key]) {
        report.begin(key);
        let (empty, full) = (Field::new(&options.url).await?, Field::new(&options.url).await?);
        fill(&full, rows).await?;
        one(options, report, (key, about), empty, full).await?;
    }
    if options.wants(&["uuid_v4"]) {
        report.begin("uuid_v4");
        let (v7, v4) = (Field::new(&options.url).await?, Field::new(&options.url).await?.with_ids(Ids::V4));
        fill(&v7, OF_EACH_KIND).await?;
        fill(&v4, OF_EACH_KIND).await?;
        let about = "A runner with ids of version 4, against version 7";
        one(options, report, ("uuid_v4", about), v7, v4).await?;
    }
    Ok(())
}

async fn one(
    options: &Options,
    report: &mut Report,
    (key, about): (&'static str, &'static str),
    base: Field,
    other: Field,
) -> anyhow::Result<()> {
    let (ours, theirs) = (Ours::new(&base, NonZeroU16::MIN).await?, Ours::new(&other, NonZeroU16::MIN).await?);
    let pairs = compare(options.plan, &ours, &theirs, MESSAGES, Mix::Fresh).await?;
    report.add(Figure::speed(key, about, &pairs));
    drop((ours, theirs));
    base.remove().await?;
    other.remove().await
}

/// Ids as producers of the last while would have made them.
async fn fill(field: &Field, rows: u32) -> anyhow::Result<()> {
    let mut connection = sqlx::PgConnection::connect_with(&field.server()).await?;
    // Ten a millisecond, in order, up to now.
    let id = match field.ids() {
        Ids::V7 => {
            "(lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint - ($2 - i) / 10), 12, '0')
                || '7' || substr(md5(i::text), 1, 3) || '8' || substr(md5(i::text), 4, 15))::uuid"
        }
        Ids::V4 => "gen_random_uuid()",
    };
    let insert = format!("INSERT INTO inbox (consumer_name, message_id) SELECT $1, {id} FROM generate_series(1, $2::bigint) AS i");
    sqlx::query(sqlx::AssertSqlSafe(insert)).bind(CONSUMER).bind(i64::from(rows)).execute(&mut connection).await?;
    // What the server would do some time after must not fall into the measurement.
    sqlx::raw_sql("VACUUM (ANALYZE) inbox").execute(&mut connection).await?;
    sqlx::raw_sql("CHECKPOINT").execute(&mut connection).await?;
    Ok(connection.close().await?)
}
