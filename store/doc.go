// Package store keeps the runs of one engine in one directory:
//
//	pawl.db                        the log, the index of runs, the definitions
//	runs/4f/4f7c..-81ab..a.db      one private SQLite file per run
//	tmp/                           files that are being built
//	LOCK                           held by the process that owns the directory
//
// A commit appends a run's records to the log and brings its row in the index
// up to date, in one transaction that all runs committing at that moment share:
// one goroutine drains a channel. When [Run.Commit] returns nil, everything in
// it survives a crash. A large record is put aside first, in parts, so that no
// commit keeps others waiting for long.
//
// Filing brings a run's private file up to date with its state, journal and
// events, off the path of commits, and then removes the records from the log.
// A file is never changed: its successor is built, in memory or, if it is large,
// under a temporary name, renamed, and synced, alone or together with many others;
// then one transaction makes the index name the new file. The records that it holds
// are dropped in that transaction, or, if they are many, in further ones. A crash
// anywhere before leaves the old file and all records, so filing is
// merely repeated. The index holds the SHA-256 of every file, and of every record with
// its predecessor: what a disk has changed is noticed, and costs the run that it has
// changed and no other. What pawl.db says besides has checksums of its own: if an engine
// that did not close has left it and any of it has changed, it is not opened.
//
// To load a run is to read its file, to fold the log's later records over it
// with [decision.Evolve], and to check that both meet without a gap.
//
// A [Dir] may be used by many goroutines. A [Run] belongs to one.
package store
