//! A runner's workers: each owns a session, in which the claim of a message travels with the commit of the one before it.

pub(crate) mod between;
mod desk;
pub(crate) mod flusher;
mod group;
pub(crate) mod queue;
mod session;
pub(crate) mod worker;
