CREATE TABLE IF NOT EXISTS "pawl_calls" (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- the order of the calls of a run
  run text NOT NULL,
  kind text NOT NULL,                -- start, signal or cancel
  body text NOT NULL,                -- what the call is given, as JSON in ASCII
  state smallint NOT NULL DEFAULT 0, -- 0: waits; 1: refused
  created bigint NOT NULL,           -- microseconds since 1970, as all instants here
  due bigint NOT NULL DEFAULT 0,     -- not before: the end of a lease, or of a pause after an error
  taker text NOT NULL DEFAULT '',    -- who has the lease
  tries integer NOT NULL DEFAULT 0,  -- that have failed
  code text NOT NULL DEFAULT '',     -- of the last error
  message text NOT NULL DEFAULT ''
) WITH (fillfactor = 80);

CREATE INDEX IF NOT EXISTS "pawl_calls_run" ON "pawl_calls" (run, id);

CREATE INDEX IF NOT EXISTS "pawl_calls_state" ON "pawl_calls" (state, id);

CREATE TABLE IF NOT EXISTS "pawl_effects" (
  effect text PRIMARY KEY,       -- SHA-256 of the effect key of a task
  run text NOT NULL,
  created bigint NOT NULL,
  outcome text NOT NULL DEFAULT '' -- as JSON in ASCII
);

CREATE INDEX IF NOT EXISTS "pawl_effects_created" ON "pawl_effects" (created);

CREATE TABLE IF NOT EXISTS "pawl_calls_version" (version integer PRIMARY KEY);

INSERT INTO "pawl_calls_version" (version) VALUES (1) ON CONFLICT DO NOTHING;
