-- The inbox: which message ids each consumer has applied. A set of ids, not an audit log.
-- To apply by your own tool, run this file in the schema that is to hold it.
CREATE TABLE "inbox" (
    consumer_name text        NOT NULL COLLATE "C",
    message_id    uuid        NOT NULL,
    processed_at  timestamptz NOT NULL DEFAULT now(),
    -- The recorded answer, for consumers that reply.
    reply         jsonb,
    -- A short fingerprint of the payload that was applied, to notice one id with two payloads. Not an identity.
    payload_hash  bigint,
    CONSTRAINT "inbox_pkey" PRIMARY KEY (consumer_name, message_id)
);

-- Messages that were set aside. Of their own, because they must outlive the rollback that they come from.
CREATE TABLE "inbox_dead_letter" (
    id            bigint      GENERATED ALWAYS AS IDENTITY,
    -- Null when the message was set aside before it reached a consumer.
    consumer_name text        COLLATE "C",
    message_id    uuid,
    reason        text        NOT NULL,
    error         text        NOT NULL,
    attempts      integer     NOT NULL DEFAULT 0,
    -- The subscription that it came from, and its name at the broker.
    source        text        NOT NULL,
    transport_id  text,
    topic         text        NOT NULL,
    message_key   bytea,
    -- JSON: a list of [name, value]; a value is text, {"hex": ".."} or null.
    headers       text        NOT NULL,
    -- Byte for byte; null for a tombstone.
    payload       bytea,
    failed_at     timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT "inbox_dead_letter_pkey" PRIMARY KEY (id)
);

-- A message that comes again is no second letter. One with the same id and another payload is: its payload would be nowhere else. One without an
-- id is known by its name at the broker, where it has one.
CREATE UNIQUE INDEX "inbox_dead_letter_message" ON "inbox_dead_letter" (
    (coalesce(consumer_name, '')),
    (coalesce(message_id, '00000000-0000-0000-0000-000000000000'::uuid)),
    (CASE WHEN message_id IS NULL THEN transport_id ELSE '' END),
    (pg_catalog.sha256(coalesce(payload, ''::bytea))));
