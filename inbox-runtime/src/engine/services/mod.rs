//! What stands around the heart: routing, dead letters, the runner.

pub(crate) mod dead_letters;
pub(crate) mod dispatch;
pub(crate) mod intake;
pub(crate) mod runner;
