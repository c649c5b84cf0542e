//! Round trips, which are counted: on any machine they are the same.

use std::num::NonZeroU16;

use crate::{
    by_hand::OnPool,
    field::{Field, Mix},
    measure::{Local, Spread},
    options::Options,
    ours::Ours,
    report::{Figure, Report},
};

const MESSAGES: u32 = 1_000;

pub(crate) async fn count(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    if !options.wants(&["trips", "dup_trips", "hand_trips"]) {
        return Ok(());
    }
    report.begin("trips");
    let field = Field::new(&options.url).await?.counted()?;
    let ours = Ours::new(&field, NonZeroU16::MIN).await?;
    let by_hand = OnPool::new(&field, NonZeroU16::MIN).await?;
    for (key, about, trips) in [
        ("trips", "Round trips a message, of a runner", of(&field, &ours, Mix::Fresh).await?),
        ("dup_trips", "Round trips a duplicate, of a runner", of(&field, &ours, Mix::Duplicates).await?),
        ("hand_trips", "Round trips a message, by hand with a pool", of(&field, &by_hand, Mix::Fresh).await?),
    ] {
        report.add(Figure::count(key, about, Spread::exact(trips)));
    }
    drop((ours, by_hand));
    field.remove().await
}

async fn of(field: &Field, side: &impl Local, mix: Mix) -> anyhow::Result<f64> {
    side.run(side.prepare(50, mix).await?).await?;
    let batch = side.prepare(MESSAGES as usize, mix).await?;
    let before = field.requests();
    side.run(batch).await?;
    Ok(f64::from(u32::try_from(field.requests() - before)?) / f64::from(MESSAGES))
}
