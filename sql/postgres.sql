-- The tables of nestjs-inbox-outbox under their default names; made from lib/persistence/tables.ts.
--
-- Plain CREATE TABLE on purpose: run on a database that has the tables, it fails and changes nothing, instead of leaving
-- an older shape as it is without a word. The lock table may exist already (ShedLock's own); it only gets the column
-- that it lacks.

BEGIN;

CREATE TABLE "outbox_message" (
  "seq" bigserial NOT NULL,
  "message_id" character varying(255) COLLATE "C" NOT NULL,
  "transport" character varying(16) NOT NULL DEFAULT 'rabbitmq',
  "exchange" character varying(255) NOT NULL,
  "routing_key" character varying(255) NOT NULL,
  "body" text NOT NULL,
  "body_encoding" character varying(8) NOT NULL DEFAULT 'utf8',
  "headers" text,
  "properties" text,
  "ordering_key" character varying(255) COLLATE "C",
  "deduplication_key" character varying(255) COLLATE "C",
  "created_at" timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
  "available_at" timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
  "expires_at" timestamp with time zone,
  "status" character varying(16) NOT NULL DEFAULT 'ready',
  "attempts" integer NOT NULL DEFAULT '0',
  "last_error" text,
  "retry" text,
  "claim_token" uuid,
  "claimed_until" timestamp with time zone,
  "holds_key" boolean NOT NULL DEFAULT false,
  "settled_at" timestamp with time zone,
  PRIMARY KEY ("seq")
) WITH (fillfactor = 50);

CREATE UNIQUE INDEX "outbox_message_message_id" ON "outbox_message" ("message_id");

CREATE UNIQUE INDEX "outbox_message_deduplication_key" ON "outbox_message" ("deduplication_key")
  WHERE "deduplication_key" IS NOT NULL;

CREATE INDEX "outbox_message_ready" ON "outbox_message" ("seq")
  WHERE "status" = 'ready' AND "transport" <> 'local' AND "ordering_key" IS NULL;

CREATE INDEX "outbox_message_ready_key" ON "outbox_message" ("seq")
  WHERE "status" = 'ready' AND "transport" <> 'local' AND "ordering_key" IS NOT NULL;

CREATE INDEX "outbox_message_local" ON "outbox_message" ("routing_key", "seq")
  WHERE "status" = 'ready' AND "transport" = 'local';

CREATE INDEX "outbox_message_local_key" ON "outbox_message" ("routing_key", "seq")
  WHERE "status" = 'ready' AND "transport" = 'local' AND "ordering_key" IS NOT NULL;

CREATE INDEX "outbox_message_scheduled" ON "outbox_message" ("available_at")
  WHERE "status" = 'scheduled';

CREATE INDEX "outbox_message_busy_key" ON "outbox_message" ("ordering_key", "seq")
  WHERE "ordering_key" IS NOT NULL AND "status" IN ('ready', 'scheduled') AND ("holds_key" OR "attempts" > 0);

CREATE INDEX "outbox_message_dead_key" ON "outbox_message" ("ordering_key")
  WHERE "status" = 'dead' AND "ordering_key" IS NOT NULL;

CREATE INDEX "outbox_message_dead" ON "outbox_message" ("seq")
  WHERE "status" = 'dead';

CREATE INDEX "outbox_message_settled" ON "outbox_message" ("settled_at")
  WHERE "status" = 'sent' AND "deduplication_key" IS NULL;

CREATE INDEX "outbox_message_remembered" ON "outbox_message" ("settled_at")
  WHERE "status" = 'sent' AND "deduplication_key" IS NOT NULL;

CREATE TABLE "inbox_message" (
  "consumer" character varying(255) COLLATE "C" NOT NULL,
  "message_id" character varying(255) COLLATE "C" NOT NULL,
  "status" character varying(16) NOT NULL,
  "attempts" integer NOT NULL DEFAULT '0',
  "seq" bigserial NOT NULL,
  "received_at" timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
  "processed_at" timestamp with time zone,
  "exchange" character varying(255),
  "routing_key" character varying(255),
  "redelivered" boolean NOT NULL DEFAULT false,
  "body" bytea,
  "headers" text,
  "properties" text,
  "ordering_key" character varying(255) COLLATE "C",
  "available_at" timestamp with time zone,
  "last_error" text,
  "claim_token" uuid,
  "claimed_until" timestamp with time zone,
  "fingerprint" character varying(64),
  "reply" bytea,
  PRIMARY KEY ("consumer", "message_id")
);

CREATE INDEX "inbox_message_open" ON "inbox_message" ("available_at")
  WHERE "status" IN ('open', 'in_progress');

CREATE INDEX "inbox_message_busy_key" ON "inbox_message" ("consumer", "ordering_key")
  WHERE "ordering_key" IS NOT NULL AND "status" IN ('open', 'in_progress') AND ("status" = 'in_progress' OR "attempts" > 0);

CREATE INDEX "inbox_message_open_key" ON "inbox_message" ("consumer", "ordering_key", "seq")
  WHERE "ordering_key" IS NOT NULL AND "status" IN ('open', 'in_progress');

CREATE INDEX "inbox_message_dead" ON "inbox_message" ("seq")
  WHERE "status" = 'dead';

CREATE INDEX "inbox_message_fingerprint" ON "inbox_message" ("consumer", "fingerprint")
  WHERE "fingerprint" IS NOT NULL;

CREATE INDEX "inbox_message_processed" ON "inbox_message" ("processed_at")
  WHERE "status" = 'done';

CREATE TABLE IF NOT EXISTS "shedlock" (
  "name" character varying(64) NOT NULL,
  "lock_until" timestamp without time zone NOT NULL,
  "locked_at" timestamp without time zone NOT NULL,
  "locked_by" character varying(255) NOT NULL,
  "fence" bigint NOT NULL DEFAULT '0',
  PRIMARY KEY ("name")
);

ALTER TABLE "shedlock" ADD COLUMN IF NOT EXISTS "fence" bigint NOT NULL DEFAULT '0';

COMMIT;
