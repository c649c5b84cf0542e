//! Points at which our own crash tests kill the process. Empty unless the feature `_failpoints` is on.

/// The points, in the order of a message's life. In a session that a worker keeps, begin and claim are one string, and so are guard and commit:
/// there `after_begin` and `after_guard` are before both.
#[cfg(feature = "_failpoints")]
pub const POINTS: [&str; 8] =
    ["after_begin", "after_claim", "after_body", "after_guard", "commit_sent", "commit_answered", "before_ack", "after_ack"];

#[cfg(feature = "_failpoints")]
static HOOK: std::sync::OnceLock<Box<dyn Fn(&'static str) + Send + Sync>> = std::sync::OnceLock::new();

/// Runs `hook` at each point from now on; the first caller wins.
#[cfg(feature = "_failpoints")]
pub fn set_probe(hook: impl Fn(&'static str) + Send + Sync + 'static) {
    drop(HOOK.set(Box::new(hook)));
}

#[cfg(feature = "_failpoints")]
pub(crate) fn point(name: &'static str) {
    if let Some(hook) = HOOK.get() {
        hook(name);
    }
}

#[cfg(not(feature = "_failpoints"))]
#[inline]
pub(crate) const fn point(_name: &'static str) {}
