-- The private file of one run: everything about it, readable with sqlite3.
-- Instants are milliseconds since the Unix epoch. Scopes are a group and a
-- branch of it, counted from 0; group 0 is the run itself.

-- One row: what the file is.
CREATE TABLE meta (
  one        INTEGER PRIMARY KEY CHECK (one = 1), -- always 1
  run        TEXT NOT NULL,                       -- its id
  workflow   TEXT NOT NULL,                       -- name of its definition
  version    INTEGER NOT NULL,                    -- of that name
  definition TEXT NOT NULL,                       -- hash
  status     TEXT NOT NULL,                       -- of the run: running, completed, ...
  seq        INTEGER NOT NULL,                    -- of the last record in the journal
  sum        BLOB NOT NULL,                       -- checksum of it
  facts      TEXT NOT NULL                        -- JSON: input, start, end, output, failure, next ids
) STRICT;

-- The definition that the run began with, and what each patch made of it.
CREATE TABLE definition (
  revision INTEGER PRIMARY KEY, -- from 1
  hash     TEXT NOT NULL,       -- of doc, SHA-256
  doc      TEXT NOT NULL        -- JSON
) STRICT;

CREATE TABLE tokens (
  id      INTEGER PRIMARY KEY, -- from 1, without gaps
  node    TEXT NOT NULL,       -- where it is, or was last
  status  TEXT NOT NULL,       -- pending, dispatched, completed, ...
  parent  INTEGER NOT NULL,    -- the token it grew from, 0 without
  grp     INTEGER NOT NULL,    -- its scope, with branch
  branch  INTEGER NOT NULL,    -- of that group, from 0
  attempt INTEGER NOT NULL,    -- at its task, from 1; 0 before the first
  base    INTEGER NOT NULL,    -- attempts that no longer count
  epoch   TEXT,                -- of the engine that dispatched the attempt, hexadecimal
  due     INTEGER,             -- the attempt times out, the retry or timer is due
  beat    INTEGER,             -- the next heartbeat is due
  via     TEXT,                -- the transition by which it waits at its join
  counts  TEXT,                -- JSON: traversals by loop transition
  input   TEXT,                -- JSON
  failure TEXT,                -- JSON, of the last attempt
  caught  TEXT,                -- JSON, the error that it handles
  source  TEXT,                -- JSON, its value for the merge
  ord     INTEGER NOT NULL,    -- its place among those that wait, 0 without
  holds   TEXT,                -- the lock that it holds
  held    INTEGER NOT NULL,    -- 1: pending because the run is paused
  votes   TEXT,                -- JSON, of its approval
  memory  TEXT                 -- JSON: what it remembers of its task from attempt to attempt
) STRICT;

CREATE TABLE groups (
  id      INTEGER PRIMARY KEY, -- from 1, without gaps
  name    TEXT NOT NULL,       -- '' is never joined
  origin  INTEGER NOT NULL,    -- the token that fanned out
  node    TEXT NOT NULL,       -- where it stood
  grp     INTEGER NOT NULL,    -- scope of the origin
  branch  INTEGER NOT NULL,    -- that of the origin, from 0
  phase   TEXT NOT NULL,       -- gathering, fired, failed, ...
  first   INTEGER NOT NULL,    -- token of branch 0
  total   INTEGER NOT NULL,    -- branches
  max     INTEGER NOT NULL,    -- branches that run at once, 0 without bound
  open    INTEGER NOT NULL,    -- 1: branches may be added
  started INTEGER NOT NULL,    -- branches that have begun
  arrived INTEGER NOT NULL,    -- branches at the join
  ended   INTEGER NOT NULL,    -- branches that ended elsewhere, by choice
  failed  INTEGER NOT NULL,    -- branches whose failure nothing caught
  due     INTEGER,             -- the join times out
  spawns  TEXT,                -- JSON: branches by transition
  counts  TEXT,                -- JSON, of the origin
  result  TEXT,                -- JSON, of the origin
  caught  TEXT,                -- JSON
  added   TEXT,                -- JSON: tokens of the last branches, which were added later
  unstarted INTEGER NOT NULL,  -- branches that were resolved before they began
  closed    INTEGER NOT NULL   -- 1: no branch is taken, the join fires as soon as it may
) STRICT;

-- The signals that came before anybody waited, and the ids of all that had one.
CREATE TABLE signals (
  seq     INTEGER PRIMARY KEY, -- in the order of arrival, from 1
  name    TEXT NOT NULL,       -- of the signal
  id      TEXT NOT NULL,       -- of the sender, '' without
  payload TEXT,                -- JSON
  due     INTEGER,             -- it is lost then
  done    INTEGER NOT NULL     -- 1: taken or lost
) STRICT;

-- The nodes of a dag to which something has happened.
CREATE TABLE steps (
  node     TEXT PRIMARY KEY, -- of the dag
  phase    INTEGER NOT NULL, -- waiting started done skipped, from 0
  resolved INTEGER NOT NULL, -- incoming transitions that are taken or dead
  live     INTEGER NOT NULL  -- of these, taken ones
) STRICT, WITHOUT ROWID;

-- The elements of foreach, by branch. An empty list is a row with idx -1.
CREATE TABLE items (
  grp   INTEGER NOT NULL, -- the group that the foreach made
  idx   INTEGER NOT NULL, -- the branch of the element, from 0
  value TEXT NOT NULL,    -- JSON
  PRIMARY KEY (grp, idx)
) STRICT, WITHOUT ROWID;

-- The branches that are resolved.
CREATE TABLE branches (
  grp     INTEGER NOT NULL, -- its group
  branch  INTEGER NOT NULL, -- from 0
  status  TEXT NOT NULL,    -- arrived, ended or failed
  failure TEXT,             -- JSON
  PRIMARY KEY (grp, branch)
) STRICT, WITHOUT ROWID;

-- What each scope has written, on top of what it sees of the scopes around it.
CREATE TABLE data (
  grp    INTEGER NOT NULL, -- the scope that has written it
  branch INTEGER NOT NULL, -- of that group, from 0
  path   TEXT NOT NULL,    -- RFC 6901 pointer
  idx    INTEGER NOT NULL, -- -1: the value there; from 0: an element appended to it
  value  TEXT NOT NULL,    -- JSON
  PRIMARY KEY (grp, branch, path, idx)
) STRICT, WITHOUT ROWID;

-- Every message with what was decided. Replaying the messages through the
-- planner of that version gives the same decisions.
CREATE TABLE journal (
  seq       INTEGER PRIMARY KEY, -- from 1, without gaps
  at        INTEGER NOT NULL,    -- the instant of the commit
  epoch     TEXT NOT NULL,       -- of the engine that has written it, hexadecimal
  planner   INTEGER NOT NULL,    -- version of the rules by which it was planned
  message   TEXT NOT NULL,       -- JSON
  decisions TEXT NOT NULL,       -- JSON
  sum       BLOB NOT NULL        -- SHA-256 of the sum before and of this record
) STRICT;

-- The values above 1 KiB of the journal, once each.
CREATE TABLE vals (
  hash  TEXT PRIMARY KEY, -- SHA-256
  value TEXT NOT NULL     -- JSON
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
  seq    INTEGER PRIMARY KEY, -- from 1, without gaps
  record INTEGER NOT NULL,    -- of the journal
  at     INTEGER NOT NULL,    -- that of its record
  type   TEXT NOT NULL,       -- task.dispatched, workflow.completed, ...
  token  INTEGER NOT NULL,    -- 0 if it concerns none
  node   TEXT NOT NULL,       -- '' if it is about none
  grp    INTEGER NOT NULL,    -- the group that it is about, 0 if about none
  data   TEXT                 -- JSON
) STRICT;

-- Where tokens are, in words: root, and /NODE:BRANCH for every fan-out. In NODE,
-- ~ is written ~0 and / is written ~1.
CREATE VIEW paths (token, path) AS
WITH RECURSIVE
  prefix (grp, path) AS (
    SELECT id, 'root' FROM groups WHERE grp = 0
    UNION ALL
    SELECT g.id, p.path || '/' || replace(replace(o.node, '~', '~0'), '/', '~1') || ':' || g.branch
    FROM groups g JOIN prefix p ON p.grp = g.grp JOIN groups o ON o.id = g.grp
  )
SELECT t.id,
  CASE WHEN t.grp = 0 THEN 'root'
  ELSE p.path || '/' || replace(replace(g.node, '~', '~0'), '/', '~1') || ':' || t.branch END
FROM tokens t LEFT JOIN groups g ON g.id = t.grp LEFT JOIN prefix p ON p.grp = t.grp;
