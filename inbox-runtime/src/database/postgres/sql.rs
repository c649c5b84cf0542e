use std::{
    fmt::Write,
    sync::atomic::{AtomicBool, AtomicU8, Ordering},
    time::Duration,
};

use sqlx::{AssertSqlSafe, Postgres, SqlSafeStr, SqlStr};
use uuid::Uuid;

use super::dialect::PgMark;
use crate::{
    engine::contract::{
        database::{Claim, Dialect},
        trip::{End, Level, Next},
    },
    vocabulary::config::{Isolation, Options, Tables},
};

/// The texts that depend on the options. Everything is qualified: a temporary table named `inbox` must not be met.
///
/// What goes into a text is a plain identifier, a consumer name (`is_consumer_name`), a UUID or a number, so nothing needs escaping.
#[derive(Debug)]
#[expect(unnameable_types, reason = "reachable through a sealed trait only")]
pub struct PgSql {
    /// `"schema"."prefix_inbox"`.
    pub(super) inbox: String,
    claim_wait: Duration,
    finish: String,
    durable: &'static str,
    pub(super) prepare: SqlStr,
    pub(super) release: SqlStr,
    pub(super) seal: SqlStr,
    pub(super) flush: SqlStr,
    pub(super) unseal: SqlStr,
    /// Part of the name of all that is prepared.
    ours: String,
    /// Statements prepared in a session do not stay in it: it is behind a proxy.
    plain: AtomicBool,
    pub(super) reply: SqlStr,
    pub(super) dead_letter: SqlStr,
    pub(super) resets: bool,
    /// What a body may have left in the session. The last of its six parts asks for its prepared statements: those of sqlx, and those that a body
    /// made by text.
    pub(super) reset: SqlStr,
}

/// Holds the transaction id of a transaction that the heart is about to commit; the commit guard asks for it.
pub(super) const FINISHING: &str = "inbox.finishing";

pub(super) fn schema(tables: &Tables) -> &str {
    tables.schema.as_ref().map_or("public", |schema| schema.as_str())
}

fn qualified(tables: &Tables, table: &str) -> String {
    format!("\"{}\".\"{}{table}\"", schema(tables), tables.prefix())
}

fn constant(sql: String) -> SqlStr {
    AssertSqlSafe(sql).into_sql_str()
}

impl PgSql {
    pub(super) fn new(options: &Options) -> Self {
        let inbox = qualified(&options.tables, "inbox");
        let letters = qualified(&options.tables, "inbox_dead_letter");
        // Behind a proxy a session may hold what others have prepared, for other tables. Short, since every message names it several times.
        let ours = format!("{:x}", Uuid::new_v4().as_u64_pair().0);
        let recorded = format!("{RECORDED} FROM {inbox} WHERE consumer_name = $1 AND message_id = $2");
        Self {
            claim_wait: options.claim_wait,
            durable: options.commit_level.sql(),
            prepare: constant(format!(
                "PREPARE inbox_c_{ours} {}; PREPARE inbox_l_{ours} {}; PREPARE inbox_r_{ours} (text, uuid) AS {recorded}; \
                 PREPARE inbox_g_{ours} (text, text) AS {}",
                prepared_claim(&inbox, BOUND),
                prepared_claim(&inbox, BOUND_AND_LOOK),
                guard_and_level("$1", "$2"),
            )),
            release: constant(format!(
                "DEALLOCATE inbox_c_{ours}; DEALLOCATE inbox_l_{ours}; DEALLOCATE inbox_r_{ours}; DEALLOCATE inbox_g_{ours}; BEGIN"
            )),
            flush: constant(format!("BEGIN; EXECUTE inbox_f_{ours}; COMMIT")),
            unseal: constant(format!("DEALLOCATE inbox_f_{ours}")),
            seal: constant(format!(
                "PREPARE inbox_f_{ours} AS {BARRIER}, pg_catalog.set_config('synchronous_commit', '{}', true)",
                options.commit_level.sql()
            )),
            plain: AtomicBool::new(false),
            finish: format!(
                "; SET LOCAL synchronous_commit = {}; SELECT pg_catalog.set_config('{FINISHING}', \
                 pg_catalog.pg_current_xact_id_if_assigned()::text, true)",
                options.commit_level.sql()
            ),
            reply: constant(format!(
                "UPDATE {inbox} AS claimed SET reply = answer.reply::jsonb FROM ROWS FROM (pg_catalog.unnest($2::uuid[]), \
                 pg_catalog.unnest($3::text[])) AS answer (id, reply) WHERE claimed.consumer_name = $1 AND claimed.message_id = answer.id"
            )),
            dead_letter: constant(format!(
                "INSERT INTO {letters} AS letter (consumer_name, message_id, reason, error, attempts, source, transport_id, topic, message_key, \
                 headers, payload) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT ((coalesce(consumer_name, '')), \
                 (coalesce(message_id, '00000000-0000-0000-0000-000000000000'::uuid)), (CASE WHEN message_id IS NULL THEN transport_id ELSE '' END), \
                 (pg_catalog.sha256(coalesce(payload, ''::bytea)))) DO UPDATE SET reason = excluded.reason, \
                 error = excluded.error, attempts = excluded.attempts, failed_at = now() WHERE letter.reason <> 'transaction_escaped'"
            )),
            resets: options.reset_session,
            reset: constant(format!(
                "CLOSE ALL; UNLISTEN *; RESET SESSION AUTHORIZATION; RESET ALL; DISCARD TEMP; \
                 SELECT pg_catalog.count(*) FILTER (WHERE NOT from_sql), pg_catalog.count(*) FILTER (WHERE from_sql AND name NOT LIKE '%{ours}'), \
                 pg_catalog.pg_advisory_unlock_all()::text FROM pg_catalog.pg_prepared_statements; "
            )),
            inbox,
            ours,
        }
    }

    /// The claim: one round trip, within the open transaction.
    pub(super) fn claim(&self, claim: &Claim<'_>) -> SqlStr {
        let mut sql = String::with_capacity(800);
        self.push_claim(&mut sql, claim, self.claim_wait);
        constant(sql)
    }

    /// Each part is a statement of its own, so that what a duplicate reads is seen by a later snapshot than the insert's: SET, INSERT, SET, SELECT.
    fn push_claim(&self, sql: &mut String, claim: &Claim<'_>, wait: Duration) {
        let Claim { names, id, fingerprint, .. } = claim;
        // Writing to a string cannot fail.
        let _ = write!(sql, "SET LOCAL lock_timeout = {}; ", milliseconds(wait));
        let _ = write!(sql, "{} VALUES ", claim_head(&self.inbox));
        let hash = hash_text(*fingerprint);
        for (i, name) in names.iter().enumerate() {
            let _ = write!(sql, "{}('{name}', '{id}', {hash})", comma(i));
        }
        let recorded = self.recorded_text(claim);
        let _ = write!(sql, " {CLAIM_CONFLICT} RETURNING {MARK}; SET LOCAL lock_timeout = DEFAULT; {recorded}");
    }

    /// The same with what the session has prepared: INSERT, and perhaps SELECT. The wait is bounded within the first.
    fn push_prepared_claim(&self, sql: &mut String, prepared: &Prepared, name: &str, looks: bool, claim: &Claim<'_>, wait: Duration) {
        let (id, hash, wait, usual) = (claim.id, hash_text(claim.fingerprint), milliseconds(wait), &prepared.lock_timeout);
        let (ours, which) = (&self.ours, if looks { 'l' } else { 'c' });
        let _ = write!(sql, "EXECUTE inbox_{which}_{ours} ('{name}', '{id}', {hash}, '{wait}', '{usual}')");
        if prepared.asks() {
            let _ = write!(sql, "; EXECUTE inbox_r_{ours} ('{name}', '{id}')");
        }
    }

    pub(super) fn is_plain(&self) -> bool {
        self.plain.load(Ordering::Relaxed)
    }

    pub(super) fn go_plain(&self) {
        if !self.plain.swap(true, Ordering::Relaxed) {
            tracing::info!(
                "statements prepared in a session do not stay there (a transaction-pooling proxy?); claims are sent as plain text"
            );
        }
    }

    /// BEGIN, SET, INSERT, SET, and the mark. Arrays, since a list of rows takes several times as long to parse; as sorted as the claims are.
    pub(super) fn claim_many(&self, claims: &[Claim<'_>], isolation: Option<Isolation>, wait: Duration) -> SqlStr {
        let mut sql = String::with_capacity(600 + 60 * claims.len());
        let (begin, wait, head) = (Postgres::begin(isolation), milliseconds(wait), claim_head(&self.inbox));
        let names = claims.first().map_or(&[] as &[_], |claim| claim.names);
        let _ = write!(
            sql,
            "{}; SET LOCAL lock_timeout = {wait}; {head} SELECT name, id, hash FROM ROWS FROM (pg_catalog.unnest('{{",
            begin.as_str()
        );
        for (i, claim) in claims.iter().enumerate() {
            let _ = write!(sql, "{}{}", comma(i), claim.id);
        }
        sql.push_str("}'::uuid[]), pg_catalog.unnest('{");
        for (i, claim) in claims.iter().enumerate() {
            let _ = write!(sql, "{}{}", comma(i), hash_text(claim.fingerprint));
        }
        let _ = write!(sql, "}}'::bigint[])) AS message (id, hash) ");
        let list = names.join(",");
        let order = if names.len() > 1 { "ORDER BY id, name" } else { "" };
        let _ = write!(sql, "CROSS JOIN pg_catalog.unnest('{{{list}}}'::text[]) AS consumer (name) {order}");
        let _ = write!(sql, " {CLAIM_CONFLICT} RETURNING message_id; SET LOCAL lock_timeout = DEFAULT; SELECT {MARK}");
        constant(sql)
    }

    /// The string of a session that a worker keeps, and where its parts end.
    ///
    /// What follows a COMMIT within one string joins the next BEGIN: a reset is undone with the transaction that it stands before.
    pub(super) fn trip(&self, prepared: Option<&Prepared>, end: End<'_, PgMark>, reset: bool, next: Option<Next<'_>>) -> (SqlStr, Parts) {
        let mut sql = String::with_capacity(800);
        let chains = matches!(end, End::Commit { .. }) && next.is_some_and(|next| next.alike);
        let end = match end {
            End::Nothing => 0,
            End::Rollback => {
                sql.push_str("ROLLBACK; ");
                1
            }
            End::Commit { mark, level, by_text } => {
                let level = if level == Level::Durable { self.durable } else { "off" };
                let xid = &mark.xid;
                let _ = if prepared.is_some() && !by_text {
                    write!(sql, "EXECUTE inbox_g_{} ('{xid}', '{level}'); ", self.ours)
                } else {
                    write!(sql, "{}; ", guard_and_level(&format!("'{xid}'"), &format!("'{level}'")))
                };
                sql.push_str(if chains { "COMMIT AND CHAIN; " } else { "COMMIT; " });
                2
            }
            End::Barrier => {
                sql.push_str(BARRIER);
                sql.push_str(&self.finish);
                sql.push_str("; COMMIT; ");
                4
            }
        };
        let one = next.and_then(|next| match (next.claim.names, prepared) {
            ([name], Some(prepared)) => Some((*name, prepared)),
            _ => None,
        });
        // A claim that finds what was prepared for it is proof enough that no body has thrown the session's statements away.
        let looks = reset && one.is_some();
        let checked = reset && !looks;
        let reset = match (looks, checked) {
            (true, _) => {
                // The same in a third of the time, with a claim that takes locks back and divides by zero for what bodies leave more rarely.
                sql.push_str("RESET SESSION AUTHORIZATION; RESET ALL; ");
                2
            }
            (_, true) => {
                sql.push_str(self.reset.as_str());
                6
            }
            _ => 0,
        };
        let mut claim = end + reset;
        if let Some(next) = next {
            if !chains {
                sql.push_str(Postgres::begin(next.isolation).as_str());
                sql.push_str("; ");
                claim += 1;
            }
            match one {
                Some((name, prepared)) => self.push_prepared_claim(&mut sql, prepared, name, looks, &next.claim, next.wait),
                None => self.push_claim(&mut sql, &next.claim, next.wait),
            }
        }
        let claim = one.map_or_else(|| Place::of_text(claim), |(_, prepared)| Place::of_prepared(claim, prepared.asks()));
        (constant(sql), Parts { end, reset, claim, checked, looks })
    }

    /// What the row of a duplicate holds.
    pub(super) fn recorded(&self, claim: &Claim<'_>) -> SqlStr {
        constant(self.recorded_text(claim))
    }

    fn recorded_text(&self, claim: &Claim<'_>) -> String {
        let (inbox, id, list) = (&self.inbox, claim.id, claim.names.join("', '"));
        format!("{RECORDED} FROM {inbox} WHERE message_id = '{id}' AND consumer_name IN ('{list}') ORDER BY reply IS NULL LIMIT 1")
    }

    /// Whether the claim's transaction is still the open one; with `finish` also the level of its commit.
    pub(super) fn guard(&self, xid: &str, finish: bool) -> SqlStr {
        let finish = if finish { self.finish.as_str() } else { "" };
        constant(format!("SELECT pg_catalog.pg_current_xact_id_if_assigned()::text IS NOT DISTINCT FROM '{xid}'{finish}"))
    }

    /// Makes this transaction write something, and its commit wait for the disk.
    pub(super) fn barrier(&self) -> SqlStr {
        constant(format!("{BARRIER}{}", self.finish))
    }

    /// A claim of a fresh id that is rolled back.
    pub(super) fn probe(&self) -> SqlStr {
        let inbox = &self.inbox;
        constant(format!("INSERT INTO {inbox} (consumer_name, message_id) VALUES ($1, $2) {CLAIM_CONFLICT} RETURNING message_id"))
    }
}

const BARRIER: &str = "SELECT pg_catalog.pg_logical_emit_message(true, 'inbox', '')";

const CLAIM_CONFLICT: &str = "ON CONFLICT (consumer_name, message_id) DO NOTHING";

/// What a `PgMark` is read from.
const MARK: &str = "pg_catalog.pg_current_xact_id_if_assigned()::text, pg_catalog.pg_backend_pid(), \
    EXTRACT(epoch FROM pg_catalog.clock_timestamp())::text";

fn claim_head(inbox: &str) -> String {
    format!("INSERT INTO {inbox} (consumer_name, message_id, payload_hash)")
}

/// The claim with a bound for its wait, which is taken back for the body. The inner part gives nothing that is used; it is done all the same, since
/// each column of it is volatile.
fn prepared_claim(inbox: &str, ready: &str) -> String {
    format!(
        "(text, uuid, bigint, text, text) AS {} SELECT $1, $2, $3 FROM (SELECT {ready} OFFSET 0) AS ready {CLAIM_CONFLICT} \
         RETURNING {MARK}, pg_catalog.set_config('lock_timeout', $5, true)",
        claim_head(inbox)
    )
}

const BOUND: &str = "pg_catalog.set_config('lock_timeout', $4, true)";

const RECORDED: &str = "SELECT reply::text, payload_hash, pg_catalog.pg_current_wal_flush_lsn() >= pg_catalog.pg_current_wal_insert_lsn() \
    AND pg_catalog.current_setting('synchronous_standby_names') = ''";

/// The guard: a transaction that is not the claim's divides by zero, and nothing after that runs.
fn guard_and_level(xid: &str, level: &str) -> String {
    format!(
        "SELECT 1 / CASE WHEN pg_catalog.pg_current_xact_id_if_assigned()::text = {xid} THEN 1 ELSE 0 END, \
         pg_catalog.set_config('{FINISHING}', {xid}, true), pg_catalog.set_config('synchronous_commit', {level}, true)"
    )
}

/// What a session has been made ready with.
#[derive(Debug)]
pub(super) struct Prepared {
    /// As it is where nobody has set it.
    pub(super) lock_timeout: String,
    /// For how many more claims a duplicate is expected.
    pub(super) expects: AtomicU8,
}

impl Prepared {
    /// How long one duplicate makes others likely.
    const LIKELY: u8 = 32;

    pub(super) const fn new(lock_timeout: String) -> Self {
        Self { lock_timeout, expects: AtomicU8::new(0) }
    }

    /// Whether the claim asks at once what a duplicate's row says: of a fresh message it costs the server a sixth of all that it does.
    fn asks(&self) -> bool {
        self.expects.load(Ordering::Relaxed) > 0
    }

    pub(super) fn met(&self, duplicate: bool) {
        let expects = if duplicate { Self::LIKELY } else { self.expects.load(Ordering::Relaxed).saturating_sub(1) };
        self.expects.store(expects, Ordering::Relaxed);
    }
}

const fn comma(i: usize) -> &'static str {
    if i == 0 { "" } else { "," }
}

fn hash_text(fingerprint: Option<i64>) -> String {
    fingerprint.map_or_else(|| "NULL".to_owned(), |hash| hash.to_string())
}

/// The same, which takes locks back, and divides by zero where a body has left what is undone at more length.
const BOUND_AND_LOOK: &str = "pg_catalog.pg_advisory_unlock_all(), pg_catalog.set_config('lock_timeout', pg_catalog.repeat($4, 1 / CASE WHEN \
    EXISTS (SELECT FROM pg_catalog.pg_cursor()) OR EXISTS (SELECT FROM pg_catalog.pg_listening_channels()) \
    OR pg_catalog.pg_my_temp_schema() <> 0 AND EXISTS (SELECT FROM pg_catalog.pg_class WHERE relnamespace = pg_catalog.pg_my_temp_schema()) \
    THEN 0 ELSE 1 END), true)";

/// Where a claim's statements stand in a string.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) begins: usize,
    pub(super) insert: usize,
    pub(super) recorded: Option<usize>,
}

impl Place {
    /// SET, INSERT, SET, SELECT.
    pub(super) const fn of_text(begins: usize) -> Self {
        Self { begins, insert: begins + 1, recorded: Some(begins + 3) }
    }

    /// INSERT, and SELECT where a duplicate is expected.
    const fn of_prepared(begins: usize, asks: bool) -> Self {
        Self { begins, insert: begins, recorded: if asks { Some(begins + 1) } else { None } }
    }
}

/// How many statements of a string belong to its end and to the reset, and where the claim stands; before it perhaps a BEGIN.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts {
    pub(super) end: usize,
    pub(super) reset: usize,
    pub(super) claim: Place,
    /// Whether the last statement of the reset counts the prepared ones.
    pub(super) checked: bool,
    /// Whether the claim looks for what is not undone at once.
    pub(super) looks: bool,
}

/// At least one: zero would mean "no limit".
fn milliseconds(duration: Duration) -> u128 {
    duration.as_millis().clamp(1, i32::MAX as u128)
}
