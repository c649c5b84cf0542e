//! Begin, claim, body, guard, commit: the one place that has this order.

pub(crate) mod attempt;
mod body;
pub(crate) mod consumer;
pub(crate) mod context;
pub(crate) mod direct;
pub(crate) mod extract;
pub(crate) mod in_flight;
pub(crate) mod inbox;
pub(crate) mod job;
pub(crate) mod kept;
pub(crate) mod known;
pub(crate) mod left_out;
mod patience;
pub(crate) mod probe;
pub(crate) mod process;
pub(crate) mod registry;
pub(crate) mod task;
