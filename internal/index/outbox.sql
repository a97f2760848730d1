-- The events that are to be published, in the order of their commits. The table is there
-- once an engine has had a feed.
CREATE TABLE outbox (
  id       INTEGER PRIMARY KEY,  -- rises
  run      TEXT NOT NULL,        -- id
  workflow TEXT NOT NULL,        -- name of its definition
  version  INTEGER NOT NULL,     -- of its definition
  tenant   TEXT NOT NULL,        -- '' without
  tag      INTEGER NOT NULL,     -- tells the events from those with the same numbers of another run, or of another life of a copy
  at       INTEGER NOT NULL,     -- of the commit
  seq      INTEGER NOT NULL,     -- of the first event
  count    INTEGER NOT NULL,     -- of events
  bytes    INTEGER NOT NULL,     -- of the next column
  events   TEXT NOT NULL,        -- JSON, a list
  crc      INTEGER NOT NULL
) STRICT;
