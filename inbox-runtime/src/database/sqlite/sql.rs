use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

use crate::vocabulary::config::Options;

/// The texts that depend on the options. Everything is qualified: a temporary table named `inbox` must not be met.
#[derive(Debug)]
#[expect(unnameable_types, reason = "reachable through a sealed trait only")]
pub struct SqliteSql {
    /// `main."prefix_inbox"`.
    pub(super) inbox: String,
    /// Without the qualification, for PRAGMA and `sqlite_master`.
    pub(super) table: String,
    insert: String,
    pub(super) recorded: SqlStr,
    pub(super) reply: SqlStr,
    pub(super) dead_letter: SqlStr,
    /// Within a transaction: makes its commit a write, where commits may not be on disk yet.
    pub(super) barrier: SqlStr,
    pub(super) commit_barrier: SqlStr,
    /// A commit that waits, and says that those after it do not.
    pub(super) flush: SqlStr,
    pub(super) announced: SqlStr,
}

/// The row that says that commits may not be on disk yet. No message has this id.
const ANNOUNCEMENT: &str = "consumer_name = 'inbox.before_ack' AND message_id = zeroblob(16)";

fn constant(sql: String) -> SqlStr {
    AssertSqlSafe(sql).into_sql_str()
}

impl SqliteSql {
    pub(super) fn new(options: &Options) -> Self {
        let prefix = options.tables.prefix();
        let table = format!("{prefix}inbox");
        let (inbox, letters) = (format!("main.\"{table}\""), format!("main.\"{prefix}inbox_dead_letter\""));
        // A commit that wrote nothing would sync nothing. Where nobody has announced anything all that is committed is on disk.
        let barrier = format!("UPDATE {inbox} SET payload_hash = payload_hash + 1 WHERE {ANNOUNCEMENT}");
        // Whoever removes old rows leaves it.
        let announce = format!(
            "INSERT INTO {inbox} (consumer_name, message_id, processed_at, payload_hash) \
             VALUES ('inbox.before_ack', zeroblob(16), '9999-12-31T23:59:59.999Z', 1) \
             ON CONFLICT (consumer_name, message_id) DO UPDATE SET payload_hash = payload_hash + 1"
        );
        Self {
            commit_barrier: constant(format!("{barrier}; COMMIT")),
            flush: constant(format!(
                "PRAGMA main.synchronous = FULL; BEGIN IMMEDIATE; {announce}; COMMIT; PRAGMA main.synchronous = NORMAL"
            )),
            announced: constant(format!("SELECT EXISTS (SELECT 1 FROM {inbox} WHERE {ANNOUNCEMENT})")),
            barrier: constant(barrier),
            insert: format!("INSERT INTO {inbox} (consumer_name, message_id, payload_hash) VALUES "),
            recorded: constant(format!("SELECT reply, payload_hash FROM {inbox} WHERE consumer_name = ?1 AND message_id = ?2")),
            reply: constant(format!("UPDATE {inbox} SET reply = ?1 WHERE consumer_name = ?2 AND message_id = ?3")),
            dead_letter: constant(format!(
                "INSERT INTO {letters} AS letter (consumer_name, message_id, reason, error, attempts, source, transport_id, topic, message_key, \
                 headers, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT (coalesce(consumer_name, ''), coalesce(message_id, x''), \
                 CASE WHEN message_id IS NULL THEN transport_id ELSE '' END, coalesce(payload, x'')) DO UPDATE SET reason = excluded.reason, \
                 error = excluded.error, attempts = excluded.attempts, failed_at = excluded.failed_at \
                 WHERE letter.reason <> 'transaction_escaped'"
            )),
            inbox,
            table,
        }
    }

    /// One INSERT for so many names: ?1 is the id, ?2 the fingerprint, the names follow.
    pub(super) fn claim(&self, names: usize) -> SqlStr {
        let rows: Vec<String> = (0..names).map(|i| format!("(?{}, ?1, ?2)", i + 3)).collect();
        constant(format!("{}{} ON CONFLICT (consumer_name, message_id) DO NOTHING RETURNING consumer_name", self.insert, rows.join(", ")))
    }
}
