//! Rules that our own tests leave out, to see that they can tell. Nothing is left out, and nothing is asked, unless the feature `_failpoints` is on.

use crate::engine::contract::database::Recorded;

/// A switch for the tests, off at first, and the question of the heart; without the feature that is a constant.
macro_rules! left_out {
    ($(#[$docs:meta])* $switch:ident, $set:ident, $is:ident) => {
        #[cfg(feature = "_failpoints")]
        static $switch: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

        $(#[$docs])*
        #[cfg(feature = "_failpoints")]
        pub fn $set(on: bool) {
            $switch.store(on, std::sync::atomic::Ordering::SeqCst);
        }

        #[cfg(feature = "_failpoints")]
        pub(super) fn $is() -> bool {
            $switch.load(std::sync::atomic::Ordering::SeqCst)
        }

        #[cfg(not(feature = "_failpoints"))]
        pub(super) const fn $is() -> bool {
            false
        }
    };
}

left_out! {
    /// What is to be on disk is taken as if it were.
    SKIP_FLUSHES, skip_flushes, skips_flushes
}

left_out! {
    /// A flush counts for what was committed before its session was opened, too.
    TRUST_ANY_SESSION, trust_any_session, trusts_any_session
}

left_out! {
    /// The row that a duplicate meets is taken as if it were on disk.
    TRUST_DUPLICATES, trust_duplicates, trusts_duplicates
}

/// Whether the row of a duplicate is known to be on disk.
pub(super) fn is_durable(recorded: &Recorded) -> bool {
    recorded.durable || trusts_duplicates()
}

#[cfg(feature = "_failpoints")]
static HELD: std::sync::LazyLock<tokio::sync::watch::Sender<bool>> = std::sync::LazyLock::new(|| tokio::sync::watch::Sender::new(false));

/// From now on what is to be flushed waits, until it is let go.
#[cfg(feature = "_failpoints")]
pub fn hold_flushes(hold: bool) {
    HELD.send_replace(hold);
}

/// How many flushes wait.
#[cfg(feature = "_failpoints")]
#[must_use]
pub fn flushes_held() -> usize {
    HELD.receiver_count()
}

#[cfg(feature = "_failpoints")]
pub(super) async fn before_flush() {
    let held = *HELD.borrow();
    if held {
        // Only its sender could go away, and that is a static.
        let _ = HELD.subscribe().wait_for(|held| !held).await;
    }
}

#[cfg(not(feature = "_failpoints"))]
pub(super) async fn before_flush() {}
