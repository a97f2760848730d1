-- Version 1 of the tables of package pg. Another schema or prefix: pawl-pg migrate -print.

-- PostgreSQL wants the right to make schemas for CREATE SCHEMA IF NOT EXISTS also where the schema is there.
DO $$ BEGIN IF to_regnamespace('pawl') IS NULL THEN CREATE SCHEMA pawl; END IF; END $$;

CREATE TABLE pawl.version (version int NOT NULL);

-- One row a log: it makes sure that only one writer begins an empty one.
CREATE TABLE pawl.logs (
	name       text   PRIMARY KEY,
	beginnings bigint NOT NULL DEFAULT 0 -- how often a first entry was written
);

-- One row an entry. The key is the fence: two writers cannot have the same number.
CREATE TABLE pawl.entries (
	log    text   NOT NULL,
	number bigint NOT NULL, -- from 1, without a gap
	writer uuid   NOT NULL, -- who has appended it
	data   bytea  NOT NULL, -- means nothing to the database, and is compressed
	PRIMARY KEY (log, number)
) WITH (toast_tuple_target = 8160,
	autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0,
	toast.autovacuum_vacuum_threshold = 1000, toast.autovacuum_vacuum_scale_factor = 0.02, toast.autovacuum_vacuum_cost_delay = 0);
ALTER TABLE pawl.entries ALTER COLUMN data SET STORAGE EXTERNAL;

-- Small values that change by compare-and-set: the leases of clusters.
CREATE TABLE pawl.cells (
	name     text        PRIMARY KEY,
	data     bytea       NOT NULL,
	revision bigint      NOT NULL,
	written  timestamptz NOT NULL -- by the clock of the server
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 100);

-- One row a blob, and its content in chunks of 256 KiB.
CREATE TABLE pawl.blobs (
	store   text        NOT NULL,
	hash    bytea       NOT NULL, -- SHA-256 of the content
	content uuid        NOT NULL,
	size    bigint      NOT NULL,
	put_at  timestamptz NOT NULL, -- by the clock of the server
	PRIMARY KEY (store, hash)
);
CREATE UNIQUE INDEX ON pawl.blobs (content);
CREATE TABLE pawl.chunks (
	content uuid        NOT NULL,
	number  int         NOT NULL, -- from 0
	put_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
	data    bytea       NOT NULL,
	PRIMARY KEY (content, number)
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.05, toast.autovacuum_vacuum_threshold = 1000, toast.autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE pawl.chunks ALTER COLUMN data SET STORAGE EXTERNAL;

-- It is last: with it the tables count as whole.
INSERT INTO pawl.version VALUES (1);
