// Package sqlite opens SQLite databases in the few ways that pawl uses them,
// and runs statements on them. A [Conn] is one connection, used by one
// goroutine at a time; it keeps the statements that it has run prepared.
//
// It talks to the driver directly, below database/sql: a commit of the engine
// is a handful of statements of a few microseconds each, and a pool in between
// costs as much again.
//
// Two traps are closed here. A path is never part of a DSN with PRAGMAs whose
// order matters, since the driver does not keep it: [Open] runs them as one
// script. And no database may be opened with os.Open while this process has it
// open with SQLite: closing that descriptor would drop SQLite's locks.
// [Conn.Serialize] and [Conn.Backup] give the bytes of a live database.
package sqlite
