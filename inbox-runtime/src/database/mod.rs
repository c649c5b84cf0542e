//! One folder per database, the same files in each: `sql` (its texts), `dialect` (the steps of the heart), `migrate`,
//! `verify`, `pool`.

#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) mod migration;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
