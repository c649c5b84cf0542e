//! What a database and a broker have to bring. The adapters implement these and see no more of the engine.

pub(crate) mod broker;
pub(crate) mod database;
pub(crate) mod delivery;
pub(crate) mod lease;
pub(crate) mod receipt;
pub(crate) mod settle;
pub(crate) mod trip;
