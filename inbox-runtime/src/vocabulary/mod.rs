//! The words of the pattern, without I/O: everything else imports them, they import nothing of ours.

pub(crate) mod backoff;
pub(crate) mod config;
pub(crate) mod error;
pub(crate) mod headers;
pub(crate) mod id;
pub(crate) mod identity;
pub(crate) mod message;
pub(crate) mod outcome;
mod pointer;
