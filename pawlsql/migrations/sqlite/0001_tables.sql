CREATE TABLE IF NOT EXISTS "pawl_calls" (
  id INTEGER PRIMARY KEY AUTOINCREMENT, -- the order of the calls of a run
  run TEXT NOT NULL,
  kind TEXT NOT NULL,                -- start, signal or cancel
  body TEXT NOT NULL,                -- what the call is given, as JSON in ASCII
  state INTEGER NOT NULL DEFAULT 0,  -- 0: waits; 1: refused
  created INTEGER NOT NULL,          -- microseconds since 1970, as all instants here
  due INTEGER NOT NULL DEFAULT 0,    -- not before: the end of a lease, or of a pause after an error
  taker TEXT NOT NULL DEFAULT '',    -- who has the lease
  tries INTEGER NOT NULL DEFAULT 0,  -- that have failed
  code TEXT NOT NULL DEFAULT '',     -- of the last error
  message TEXT NOT NULL DEFAULT ''
);

CREATE INDEX IF NOT EXISTS "pawl_calls_run" ON "pawl_calls" (run, id);

CREATE INDEX IF NOT EXISTS "pawl_calls_state" ON "pawl_calls" (state, id);

CREATE TABLE IF NOT EXISTS "pawl_effects" (
  effect TEXT PRIMARY KEY,         -- SHA-256 of the effect key of a task
  run TEXT NOT NULL,
  created INTEGER NOT NULL,
  outcome TEXT NOT NULL DEFAULT '' -- as JSON in ASCII
);

CREATE INDEX IF NOT EXISTS "pawl_effects_created" ON "pawl_effects" (created);

CREATE TABLE IF NOT EXISTS "pawl_calls_version" (version INTEGER PRIMARY KEY);

INSERT INTO "pawl_calls_version" (version) VALUES (1) ON CONFLICT DO NOTHING;
