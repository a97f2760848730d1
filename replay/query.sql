-- What pawl sql asks: recorded runs as tables. Instants are texts in UTC, as 2030-01-01T11:00:09.000Z, which the date
-- functions of SQLite take; spans are milliseconds. What is JSON is a text, which ->> reads. What there is not is NULL.
-- Groups and branches are as in the run's file: branches count from 0, and group 0 is the run itself.

-- One row for each run, as it was after its last record.
CREATE TABLE runs (
  run         TEXT PRIMARY KEY,
  workflow    TEXT NOT NULL,
  version     INTEGER NOT NULL,
  definition  TEXT NOT NULL,    -- hash of what it began with
  revision    INTEGER NOT NULL, -- 1, and 1 more for each patch
  status      TEXT NOT NULL,
  records     INTEGER NOT NULL,
  started     TEXT,
  ended       TEXT,
  elapsed     INTEGER,          -- from start to end
  code        TEXT,             -- of its failure
  message     TEXT,
  parent      TEXT,
  tenant      TEXT,
  forked_from TEXT,
  labels      TEXT NOT NULL,    -- JSON: an object of texts
  input       TEXT NOT NULL,    -- JSON
  state       TEXT NOT NULL,    -- JSON
  output      TEXT,             -- JSON, of a run that has completed
  source      TEXT NOT NULL     -- the file or directory that it was read from
) STRICT;

-- The messages of a run, and what was decided.
CREATE TABLE journal (
  run       TEXT NOT NULL,
  record    INTEGER NOT NULL, -- from 1
  at        TEXT NOT NULL,
  message   TEXT NOT NULL,    -- TaskCompleted, Ballot, ...
  what      TEXT NOT NULL,    -- the message in a line
  token     INTEGER,          -- which it is for
  node      TEXT,
  person    TEXT,             -- who has sent it
  reason    TEXT,
  decisions TEXT NOT NULL,    -- JSON: a list of lines
  planner   INTEGER NOT NULL, -- version
  PRIMARY KEY (run, record)
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
  run    TEXT NOT NULL,
  seq    INTEGER NOT NULL,
  record INTEGER NOT NULL, -- of the journal
  at     TEXT NOT NULL,
  type   TEXT NOT NULL,    -- task.completed, fan_out.started, ...
  token  INTEGER,
  node   TEXT,
  grp    INTEGER,
  data   TEXT,             -- JSON
  PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE tokens (
  run     TEXT NOT NULL,
  token   INTEGER NOT NULL,
  node    TEXT NOT NULL,
  status  TEXT NOT NULL,
  parent  INTEGER,          -- the token it grew from
  path    TEXT NOT NULL,    -- root, and /NODE:BRANCH for every fan-out
  grp     INTEGER NOT NULL,
  branch  INTEGER NOT NULL,
  attempt INTEGER NOT NULL, -- the last one, 0 before the first
  due     TEXT,
  code    TEXT,             -- of the failure of its last attempt
  message TEXT,
  input   TEXT,             -- JSON, of its task while it lives
  PRIMARY KEY (run, token)
) STRICT, WITHOUT ROWID;

-- The attempts at tasks, and what they came to.
CREATE TABLE attempts (
  run     TEXT NOT NULL,
  token   INTEGER NOT NULL,
  attempt INTEGER NOT NULL, -- from 1
  node    TEXT NOT NULL,
  task    TEXT NOT NULL,    -- its type
  dispatched TEXT NOT NULL, -- when it was sent first; in a fork, when that sent it
  began   TEXT,             -- when a handler or a worker began to perform it; NULL if nobody knows, and while it runs
  sent    INTEGER NOT NULL, -- how often: again after a crash
  ended   TEXT,             -- NULL also if it was cancelled with its group or its run
  queue_ms INTEGER,         -- from dispatched to began
  work_ms  INTEGER,         -- from began to ended
  elapsed INTEGER,          -- from dispatched to ended
  outcome TEXT NOT NULL,    -- running, completed, failed, retrying, snoozed, parked, timed_out or cancelled
  code    TEXT,
  message TEXT,
  PRIMARY KEY (run, token, attempt)
) STRICT, WITHOUT ROWID;

-- The branches of fan-outs.
CREATE TABLE branches (
  run    TEXT NOT NULL,
  grp    INTEGER NOT NULL,
  branch INTEGER NOT NULL, -- from 0
  name   TEXT NOT NULL,    -- of the group, '' is never joined
  node   TEXT NOT NULL,    -- which fanned out
  phase  TEXT NOT NULL,    -- of the group: gathering, fired, failed or abandoned
  status TEXT NOT NULL,    -- running, arrived, ended or failed
  token  INTEGER NOT NULL, -- its first
  code   TEXT,             -- why it failed
  item   TEXT,             -- JSON, of foreach
  PRIMARY KEY (run, grp, branch)
) STRICT, WITHOUT ROWID;
