CREATE TABLE IF NOT EXISTS `pawl_calls` (
  id BIGINT AUTO_INCREMENT PRIMARY KEY, -- the order of the calls of a run
  run VARBINARY(255) NOT NULL,          -- bytes, which are compared as they are
  kind VARCHAR(16) NOT NULL,            -- start, signal or cancel
  body LONGTEXT CHARACTER SET utf8mb4 NOT NULL, -- what the call is given, as JSON in ASCII
  state SMALLINT NOT NULL DEFAULT 0,    -- 0: waits; 1: refused
  created BIGINT NOT NULL,              -- microseconds since 1970, as all instants here
  due BIGINT NOT NULL DEFAULT 0,        -- not before: the end of a lease, or of a pause after an error
  taker VARCHAR(64) NOT NULL DEFAULT '', -- who has the lease
  tries INTEGER NOT NULL DEFAULT 0,     -- that have failed
  code VARCHAR(64) NOT NULL DEFAULT '', -- of the last error
  message VARCHAR(2000) CHARACTER SET utf8mb4 NOT NULL DEFAULT '',
  INDEX `pawl_calls_run` (run, id),
  INDEX `pawl_calls_state` (state, id)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS `pawl_effects` (
  effect VARBINARY(64) PRIMARY KEY, -- SHA-256 of the effect key of a task
  run VARBINARY(255) NOT NULL,
  created BIGINT NOT NULL,
  outcome LONGTEXT CHARACTER SET utf8mb4 NULL, -- as JSON in ASCII
  INDEX `pawl_effects_created` (created)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS `pawl_calls_version` (version INTEGER PRIMARY KEY) ENGINE = InnoDB;

INSERT IGNORE INTO `pawl_calls_version` (version) VALUES (1);
