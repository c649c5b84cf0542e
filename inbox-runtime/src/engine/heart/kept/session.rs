use std::time::Duration;

use sqlx::{Connection, Transaction, pool::PoolConnection};

use super::super::{body::step, inbox::Inbox, probe::point, process::Order};
use crate::{
    engine::contract::{
        database::{Claim, ClaimedMany, InboxDatabase, SqlFault},
        trip::{End, Ended, Next, Trip},
    },
    vocabulary::config::Isolation,
};

/// A connection that a worker keeps. To sqlx it is inside one transaction for all its life; BEGIN and COMMIT are sent as text.
pub(super) struct Session<'c, DB: InboxDatabase> {
    pub(super) inbox: &'c Inbox<DB>,
    pub(super) tx: Transaction<'c, DB>,
    kept: DB::Kept,
    /// A transaction is open of which nothing is to stay.
    open: bool,
    /// Of the transaction that was begun last.
    isolation: Option<Isolation>,
    /// A body ran since the last reset that is certain to last.
    dirty: bool,
}

impl<'c, DB: InboxDatabase> Session<'c, DB> {
    pub(super) async fn begin(inbox: &'c Inbox<DB>, conn: &'c mut PoolConnection<DB>) -> Result<Self, sqlx::Error> {
        let (limit, sql) = (inbox.shared.options.step_timeout, &inbox.shared.sql);
        let mut tx = step(limit, conn.begin()).await?;
        let kept = step(limit, DB::keep(&mut tx, sql)).await?;
        Ok(Self { inbox, tx, kept, open: true, isolation: None, dirty: false })
    }

    /// One string: `end`, and the claim for `next`, which may wait this long.
    ///
    /// Where it is not heard of in time, the session is broken.
    pub(super) async fn trip(&mut self, end: Option<End<'_, DB::Mark>>, next: Option<(&Order, Duration)>) -> Trip<DB::Mark> {
        let (shared, commits) = (&self.inbox.shared, matches!(end, Some(End::Commit { .. })));
        let end = end.unwrap_or(if self.open { End::Rollback } else { End::Nothing });
        let reset = self.dirty && shared.options.reset_session;
        let wait = next.map(|(_, wait)| wait).unwrap_or_default();
        let begun = self.isolation;
        let next = next.map(|(order, wait)| {
            self.isolation = order.isolation;
            Next { claim: order.claim(), isolation: order.isolation, alike: order.isolation == begun, wait }
        });
        let resets = next.is_none();
        if commits {
            point("after_guard");
        }
        if next.is_some() {
            point("after_begin");
        }
        let trip = step(shared.options.step_timeout + wait, async {
            let mut trip = std::pin::pin!(DB::trip(&mut self.tx, &shared.sql, &self.kept, end, reset, next));
            let early = std::future::poll_fn(|cx| std::task::Poll::Ready(trip.as_mut().poll(cx))).await;
            if commits {
                point("commit_sent");
            }
            Ok(match early {
                std::task::Poll::Ready(trip) => trip,
                std::task::Poll::Pending => trip.await,
            })
        });
        let trip = match trip.await {
            Ok(trip) => trip,
            Err(late) => Trip::failed(if commits { Ended::Unknown(late) } else { Ended::Lost(late) }),
        };
        if commits && matches!(trip.ended, Ended::Done) {
            point("commit_answered");
        }
        if trip.claimed.is_some() {
            point("after_claim");
        }
        self.open = trip.open;
        if resets && matches!(trip.ended, Ended::Done) && !trip.broken {
            self.dirty = false;
        }
        trip
    }

    /// Begins, and claims for all of them. `None`: none is fresh.
    pub(super) async fn claim_many(&mut self, orders: Vec<&Order>, wait: Duration) -> Result<Option<ClaimedMany<DB::Mark>>, sqlx::Error> {
        let (limit, sql) = (self.inbox.shared.options.step_timeout, &self.inbox.shared.sql);
        let isolation = orders.first().and_then(|order| order.isolation);
        let mut claims: Vec<Claim<'_>> = orders.into_iter().map(Order::claim).collect();
        self.isolation = isolation;
        // In one order everywhere: two workers that share ids would lock each other out.
        claims.sort_unstable_by_key(|claim| claim.id);
        point("after_begin");
        let claimed = step(limit + wait, DB::claim_many(&mut self.tx, sql, &claims, isolation, wait)).await;
        // A writer that is busy left nothing open.
        self.open = !claimed.as_ref().is_err_and(|e| DB::read(e) == SqlFault::Busy);
        point("after_claim");
        claimed
    }

    /// Leaves nothing open and nothing of a body behind. Whether that is certain.
    pub(super) async fn rest(&mut self) -> bool {
        if !self.open && !self.dirty {
            return true;
        }
        let trip = self.trip(None, None).await;
        matches!(trip.ended, Ended::Done) && !trip.broken
    }

    /// Before a body is given the transaction.
    pub(super) const fn used(&mut self) {
        self.dirty = true;
    }

    /// Gives the connection back as sqlx knows it: outside of a transaction. Whether that succeeded.
    pub(super) async fn end(mut self) -> bool {
        if !self.rest().await {
            return false;
        }
        let limit = self.inbox.shared.options.step_timeout;
        let Self { mut tx, kept, inbox, .. } = self;
        step(limit, async {
            DB::release(&mut tx, &inbox.shared.sql, &kept).await?;
            tx.rollback().await
        })
        .await
        .is_ok()
    }
}
