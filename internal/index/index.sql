-- pawl.db: the log, the index of runs, and the definitions of one directory.
-- The engine holds it open exclusively while it runs. All instants are
-- milliseconds since the Unix epoch. A crc is the checksum of the key and of the
-- columns before it, in tables whose rows nothing else proves: see crc.go.

-- A row of meta with the key log says how much of a log outside of the directory is in this file: see logplace.go.
CREATE TABLE meta (
  key   TEXT PRIMARY KEY,
  value ANY NOT NULL          -- epoch: random, of the engine that opened last; secret: of the directory, behind its CRC-32C; sealed: likewise, if a codec seals values, which texts that begin with byte 1 are
) STRICT, WITHOUT ROWID;

CREATE TABLE definitions (
  hash TEXT PRIMARY KEY,      -- SHA-256 of the canonical JSON
  doc  TEXT NOT NULL          -- JSON
) STRICT, WITHOUT ROWID;

CREATE TABLE published (
  name    TEXT NOT NULL,
  version INTEGER NOT NULL,
  hash    TEXT NOT NULL,      -- of the definition
  crc     INTEGER NOT NULL,
  PRIMARY KEY (name, version)
) STRICT, WITHOUT ROWID;

-- Definitions of runs that were purged, which other runs may have or not: see unused.go.
CREATE TABLE purged_definitions (
  hash TEXT PRIMARY KEY,
  crc  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
  num        INTEGER PRIMARY KEY,
  -- What does not change.
  id         TEXT NOT NULL UNIQUE,
  workflow   TEXT NOT NULL,
  version    INTEGER NOT NULL,
  definition TEXT NOT NULL,      -- hash
  input_hash TEXT NOT NULL,      -- tells a repeated start from another one
  parent     TEXT NOT NULL,      -- run id, '' without
  root       TEXT NOT NULL,      -- id of the first of its ancestors, '' without
  tenant     TEXT NOT NULL,      -- on whose behalf, '' without
  labels     TEXT NOT NULL,      -- JSON, an object of texts, '' without
  nonce      INTEGER NOT NULL,   -- part of the file's name, never used again
  started_at INTEGER,
  forked_from   TEXT NOT NULL,    -- the run that it was forked from, '' of one that was started
  forked_record INTEGER NOT NULL, -- the record of that run after which it was
  start_crc  INTEGER NOT NULL,
  -- What its descendants change.
  room       INTEGER NOT NULL,   -- of a root: how many descendants it may still have
  room_crc   INTEGER NOT NULL,
  -- What some commits change.
  status     INTEGER NOT NULL,   -- created running paused suspended completed failed timed_out cancelled, from 0
  alarm      INTEGER,            -- when time alone changes the run
  ended_at   INTEGER,
  output     TEXT,               -- JSON, of a completed run
  failure    TEXT,               -- JSON, of any other end
  artifacts  TEXT,               -- JSON, of a run that has ended
  state_crc  INTEGER NOT NULL,
  -- What every commit changes.
  seq        INTEGER NOT NULL,   -- of the last record
  sum        BLOB NOT NULL,      -- checksum of the last record
  at         INTEGER NOT NULL,   -- of the last record
  last_crc   INTEGER NOT NULL,
  -- What filing changes.
  slot       INTEGER NOT NULL,   -- the file's name ends on a or b: 1, 2; 0 there is no file yet
  filed      INTEGER NOT NULL,   -- sequence of the last record in the file
  filed_sum  BLOB,               -- its checksum
  file_hash  BLOB,               -- SHA-256 of the file
  file_size  INTEGER NOT NULL,
  file_crc   INTEGER NOT NULL
) STRICT;

-- Each of them ends with num, as every index of SQLite does: those with one value are in
-- the order in which they came.
CREATE INDEX runs_status ON runs (status);
CREATE INDEX runs_workflow ON runs (workflow);
CREATE INDEX runs_parent ON runs (parent) WHERE parent <> '';
CREATE INDEX runs_forked ON runs (forked_from) WHERE forked_from <> '';
CREATE INDEX runs_tenant ON runs (tenant) WHERE tenant <> '';
CREATE INDEX runs_alarm ON runs (alarm) WHERE alarm IS NOT NULL;
CREATE INDEX runs_ended ON runs (ended_at) WHERE ended_at IS NOT NULL;

-- How many runs there are. What is derived from the runs changes with their commits.
CREATE TABLE run_counts (
  workflow TEXT NOT NULL,
  status   INTEGER NOT NULL,
  runs     INTEGER NOT NULL,
  crc      INTEGER NOT NULL,
  PRIMARY KEY (workflow, status)
) STRICT, WITHOUT ROWID;

-- The labels of runs, by which those are found.
CREATE TABLE labels (
  num   INTEGER NOT NULL,        -- of the run
  key   TEXT NOT NULL,
  value TEXT NOT NULL,
  crc   INTEGER NOT NULL,
  PRIMARY KEY (key, value, num)
) STRICT, WITHOUT ROWID;

CREATE INDEX labels_num ON labels (num);

-- The approvals that wait for people, in all runs, likewise.
CREATE TABLE approvals (
  num       INTEGER NOT NULL,    -- of the run
  token     INTEGER NOT NULL,
  node      TEXT NOT NULL,
  message   TEXT NOT NULL,
  input     TEXT NOT NULL,       -- JSON
  approved  INTEGER NOT NULL,    -- votes
  rejected  INTEGER NOT NULL,    -- votes
  due       INTEGER,             -- it times out
  crc       INTEGER NOT NULL,
  PRIMARY KEY (num, token)
) STRICT, WITHOUT ROWID;

-- The tasks that wait for an operator, in all runs, likewise.
CREATE TABLE dead_letters (
  num       INTEGER NOT NULL,    -- of the run
  token     INTEGER NOT NULL,
  node      TEXT NOT NULL,
  task      TEXT NOT NULL,       -- its type
  attempts  INTEGER NOT NULL,    -- made
  failure   TEXT NOT NULL,       -- JSON, of the last attempt
  input     TEXT NOT NULL,       -- JSON
  at        INTEGER NOT NULL,    -- since when
  crc       INTEGER NOT NULL,
  PRIMARY KEY (num, token)
) STRICT, WITHOUT ROWID;

-- The outcomes of effects that must not be repeated, by business key.
CREATE TABLE outcomes (
  id    INTEGER PRIMARY KEY,
  key   TEXT NOT NULL UNIQUE,
  value TEXT NOT NULL,           -- JSON
  at    INTEGER NOT NULL,
  crc   INTEGER NOT NULL
) STRICT;

-- Who refers to which blob.
CREATE TABLE blob_refs (
  hash     TEXT NOT NULL,        -- sha256:...
  num      INTEGER NOT NULL,     -- of a run; or, negative, of an outcome
  artifact INTEGER NOT NULL,     -- 1: only an artifact does
  crc      INTEGER NOT NULL,
  PRIMARY KEY (hash, num)
) STRICT, WITHOUT ROWID;

CREATE INDEX blob_refs_num ON blob_refs (num);

-- The records that no run's file holds yet. Their key is the key of the table's tree: with
-- an index beside it every commit would write a page more. Records up to runs.filed are
-- dead: they are being dropped, or a crash kept them from it.
CREATE TABLE log (
  key       INTEGER PRIMARY KEY, -- number of the run * 2^32 + sequence
  at        INTEGER NOT NULL,
  epoch     INTEGER NOT NULL,    -- the 64 bits, signed
  planner   INTEGER NOT NULL,
  parts     INTEGER,             -- of a large record: the number of its parts, and the next three are empty
  message   BLOB NOT NULL,       -- JSON
  decisions BLOB NOT NULL,       -- JSON
  vals      BLOB,                -- large values of both, each after its length as uvarint
  sum       BLOB NOT NULL        -- SHA-256 of the sum before and of all of this
) STRICT;

-- Large records, in pieces, so that no commit is long: message and decisions, each
-- after its length as uvarint, and vals.
CREATE TABLE parts (
  key  INTEGER PRIMARY KEY,      -- log.parts * 2^20 + a number from 0
  data BLOB NOT NULL
) STRICT;
