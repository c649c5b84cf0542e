use crate::{engine::contract::database::MigrateError, vocabulary::config::Tables};

/// One schema file, as shipped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Migration {
    pub(crate) version: i64,
    pub(crate) name: &'static str,
    sql: &'static str,
}

impl Migration {
    pub(crate) const fn new(version: i64, name: &'static str, sql: &'static str) -> Self {
        Self { version, name, sql }
    }

    /// The file with the prefix before each of our names; they are quoted there, and nothing else is.
    pub(crate) fn sql(&self, tables: &Tables) -> String {
        self.sql.replace("\"inbox", &format!("\"{}inbox", tables.prefix()))
    }

    /// Of the file as shipped, prefixes apart.
    pub(crate) fn checksum(&self) -> String {
        uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, self.sql.as_bytes()).to_string()
    }
}

/// What is still to be applied, given what the database has recorded as (version, checksum).
pub(crate) fn pending(all: &'static [Migration], applied: &[(i64, String)]) -> Result<&'static [Migration], MigrateError> {
    let known = all.last().map_or(0, |migration| migration.version);
    for (version, checksum) in applied {
        match all.iter().find(|migration| migration.version == *version) {
            Some(migration) if migration.checksum() == *checksum => {}
            Some(_) => return Err(MigrateError::Changed { version: *version }),
            None => return Err(MigrateError::Newer { found: *version, known }),
        }
    }
    Ok(all.get(applied.len()..).unwrap_or_default())
}
