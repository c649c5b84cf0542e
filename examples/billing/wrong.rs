//! The three ways that do not work, written by hand, since the crate offers none of them. Each has a window in which a crash loses or
//! doubles; [`WINDOW`] keeps it open for a moment longer, so that twenty kills are enough to see what a year of deployments shows anyway.

use std::time::Duration;

use sqlx::{AnyConnection, Connection, query};
use tokio::time::sleep;

use crate::{
    Error,
    events::Event,
    handlers::{CREDIT, NAMES, NOTE, TAKE},
    pipe::Pipe,
    place,
    protocol::{Answer, Delivered, End, Job, Mode, Question},
};

/// How much longer the window between two systems is than it has to be.
pub(crate) const WINDOW: Duration = Duration::from_millis(2);

pub(crate) async fn run(job: &Job, pipe: &Pipe) -> Result<(), Error> {
    let mut worker = Worker { db: place::connect(&job.url).await?, marks: place::open_marks(&job.marks).await?, duplicates: 0 };
    loop {
        match pipe.ask(&Question::Receive { most: 4 }).await? {
            Answer::Finished | Answer::Settled(_) => return Ok(()),
            Answer::Deliveries(none) if none.is_empty() => sleep(Duration::from_millis(5)).await,
            Answer::Deliveries(found) => {
                for Delivered { tag, event, .. } in found {
                    match job.mode {
                        Mode::AckFirst => worker.ack_first(pipe, tag, &event).await?,
                        Mode::MarkAfterWork => worker.mark_after_work(&event).await?,
                        Mode::MarkBeforeWork => worker.mark_before_work(&event).await?,
                        Mode::WithoutInbox | Mode::Inbox => worker.without_inbox(&event).await?,
                    }
                    if job.mode != Mode::AckFirst {
                        ack(pipe, tag, worker.duplicates).await?;
                    }
                }
            }
        }
    }
}

async fn ack(pipe: &Pipe, tag: u64, duplicates: u64) -> Result<(), Error> {
    pipe.ask(&Question::Settle { tags: vec![(tag, End::Done)], duplicates }).await.map(drop)
}

struct Worker {
    db: AnyConnection,
    marks: AnyConnection,
    duplicates: u64,
}

impl Worker {
    /// The handler of the pattern's first paragraph: receive, work, ack. Killed before the ack, it works again.
    async fn without_inbox(&mut self, event: &Event) -> Result<(), Error> {
        for consumer in NAMES {
            self.work_and_commit(consumer, event).await?;
        }
        sleep(WINDOW).await;
        Ok(())
    }

    /// The second store is asked first and told last. Killed between work and mark, it works again.
    async fn mark_after_work(&mut self, event: &Event) -> Result<(), Error> {
        for consumer in NAMES {
            let key = key(consumer, event);
            if query("SELECT 1 FROM marks WHERE id = $1").bind(&key).fetch_optional(&mut self.marks).await?.is_some() {
                self.duplicates += 1;
                continue;
            }
            self.work_and_commit(consumer, event).await?;
            sleep(WINDOW).await;
            self.mark(&key).await?;
        }
        Ok(())
    }

    /// `SETNX`, then the work. Killed between the two, it skips work that never happened.
    async fn mark_before_work(&mut self, event: &Event) -> Result<(), Error> {
        for consumer in NAMES {
            if !self.mark(&key(consumer, event)).await? {
                self.duplicates += 1;
                continue;
            }
            sleep(WINDOW).await;
            self.work_and_commit(consumer, event).await?;
        }
        Ok(())
    }

    /// Claim and work are one transaction, as they should be, but the broker hears of it before the commit. Killed between the two, the
    /// transaction is rolled back and the message never comes again.
    async fn ack_first(&mut self, pipe: &Pipe, tag: u64, event: &Event) -> Result<(), Error> {
        let mut tx = self.db.begin().await?;
        for consumer in NAMES {
            let claim = "INSERT INTO seen (consumer, event_id) VALUES ($1, $2) ON CONFLICT (consumer, event_id) DO NOTHING";
            if query(claim).bind(consumer).bind(&event.event_id).execute(&mut *tx).await?.rows_affected() == 0 {
                self.duplicates += 1;
            } else {
                work(&mut tx, consumer, event).await?;
            }
        }
        ack(pipe, tag, self.duplicates).await?;
        sleep(WINDOW).await;
        tx.commit().await?;
        Ok(())
    }

    async fn work_and_commit(&mut self, consumer: &str, event: &Event) -> Result<(), Error> {
        let mut tx = self.db.begin().await?;
        work(&mut tx, consumer, event).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Whether the mark is new.
    async fn mark(&mut self, key: &str) -> Result<bool, Error> {
        let set = query("INSERT INTO marks (id) VALUES ($1) ON CONFLICT (id) DO NOTHING").bind(key.to_owned());
        Ok(set.execute(&mut self.marks).await?.rows_affected() == 1)
    }
}

fn key(consumer: &str, event: &Event) -> String {
    format!("{consumer}/{}", event.event_id)
}

/// What the two handlers do.
async fn work(db: &mut AnyConnection, consumer: &str, event: &Event) -> Result<(), Error> {
    let order = &event.order;
    if consumer == "billing" {
        query(CREDIT).bind(order.amount_cents).bind(order.account_id).execute(&mut *db).await?;
    } else {
        query(TAKE).bind(order.quantity).bind(order.sku.clone()).execute(&mut *db).await?;
    }
    query(NOTE).bind(consumer.to_owned()).bind(event.event_id.clone()).execute(&mut *db).await?;
    Ok(())
}
