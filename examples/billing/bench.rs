//! One run after the other: orders, database, deliveries, verdict.

use crate::{
    Error, events,
    options::Options,
    place,
    protocol::Mode,
    queue::Queue,
    report::{self, Line},
    supervisor::{Kills, Supervisor},
    verdict::Verdict,
};

/// Whether everything came out as it should: nothing lost and nothing doubled, or, for a counter-example, its fault.
pub(crate) async fn run(options: &Options) -> Result<bool, Error> {
    let dir = tempfile::Builder::new().prefix("inbox-billing-").tempdir()?;
    let file = dir.path().join("orders.jsonl");
    events::write(&file, options.events(), options.seed)?;
    let published = events::read(&file)?;
    println!("{} orders, published {} times, seed {}", options.events(), published.len(), options.seed);

    let (mut good, mut sum) = (true, Line::default());
    for (number, mode) in (0..).zip(options.modes()) {
        report::headline(*mode);
        let job = place::prepare(options.database_url.as_deref(), &dir.path().join(number.to_string()), *mode).await?;
        println!(
            "on {}\n",
            job.schema.as_ref().map_or("SQLite, in a temporary file".to_owned(), |name| format!("PostgreSQL, in schema {name}"))
        );
        let queue = Queue::new(&published, options.seed);
        let kills = Kills::new(options.kills, published.len() as u64, options.seed);
        let seen = Supervisor::new(&job, queue, kills).run().await?;
        let verdict = Verdict::read(&job, &published).await?;
        report::table(&verdict, &seen);
        let shown = judge(*mode, &verdict) && seen.kills >= u64::from(options.kills);
        report::conclusion(*mode, &verdict, shown);
        good &= shown;
        sum += Line::new(&verdict, &seen);
    }
    println!("{sum}");
    Ok(good)
}

fn judge(mode: Mode, verdict: &Verdict) -> bool {
    match mode {
        Mode::Inbox => verdict.is_right(),
        Mode::WithoutInbox | Mode::MarkAfterWork => verdict.doubled_by_kill > 0 && !verdict.is_right(),
        Mode::MarkBeforeWork | Mode::AckFirst => verdict.lost > 0 && !verdict.is_right(),
    }
}
