-- The inbox: which message ids each consumer has applied. A set of ids, not an audit log.
-- To apply by your own tool, run this file.
CREATE TABLE "inbox" (
    consumer_name TEXT    NOT NULL,
    -- 16 bytes.
    message_id    BLOB    NOT NULL,
    -- UTC, RFC 3339 with milliseconds.
    processed_at  TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    -- The recorded answer as JSON, for consumers that reply.
    reply         TEXT,
    -- A short fingerprint of the payload that was applied, to notice one id with two payloads. Not an identity.
    payload_hash  INTEGER,
    PRIMARY KEY (consumer_name, message_id)
) STRICT, WITHOUT ROWID;

-- Messages that were set aside. Of their own, because they must outlive the rollback that they come from.
CREATE TABLE "inbox_dead_letter" (
    id            INTEGER PRIMARY KEY,
    -- Null when the message was set aside before it reached a consumer.
    consumer_name TEXT,
    message_id    BLOB,
    reason        TEXT    NOT NULL,
    error         TEXT    NOT NULL,
    attempts      INTEGER NOT NULL DEFAULT 0,
    -- The subscription that it came from, and its name at the broker.
    source        TEXT    NOT NULL,
    transport_id  TEXT,
    topic         TEXT    NOT NULL,
    message_key   BLOB,
    -- JSON: a list of [name, value]; a value is text, {"hex": ".."} or null.
    headers       TEXT    NOT NULL,
    -- Byte for byte; null for a tombstone.
    payload       BLOB,
    failed_at     TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

-- A message that comes again is no second letter. One with the same id and another payload is: its payload would be nowhere else. One without an
-- id is known by its name at the broker, where it has one.
CREATE UNIQUE INDEX "inbox_dead_letter_message" ON "inbox_dead_letter" (
    coalesce(consumer_name, ''),
    coalesce(message_id, x''),
    CASE WHEN message_id IS NULL THEN transport_id ELSE '' END,
    coalesce(payload, x''));
