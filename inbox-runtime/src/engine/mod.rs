//! Contracts, the heart, and the services around it. All that may make a receipt stands below this module.

pub(crate) mod contract;
pub(crate) mod heart;
pub(crate) mod services;
