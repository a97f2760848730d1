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
// it survives a crash. A large record is spilled first, in parts, so that no
// commit keeps others waiting for long.
//
// A flush brings a run's private file up to date with its state, journal and
// events, off the path of commits, and then removes the records from the log.
// A file is never changed: its successor is built, in memory or, if it is large,
// under a temporary name, renamed, and synced, alone or together with many others;
// then one transaction makes the index name the new file. The records that it holds
// are dropped in that transaction, or, if they are many, in further ones. A crash
// anywhere before leaves the old file and all records, so the flush is
// merely repeated. The index holds the SHA-256 of every file, and of every record with
// its predecessor: a change on the disk is noticed, and costs the run that it is in
// and no other. The other rows of pawl.db have checksums of their own: if one of them
// has changed in a pawl.db that was not closed, the directory is not opened.
//
// A run is loaded from its file and the log's later records, which are applied to it
// with [decision.Apply]; both must meet without a gap.
//
// A [Dir] may be used by many goroutines. A [Run] belongs to one.
//
// What is in pawl.db and in the files of runs, row by row, is the business of the packages
// index and runfile; this one knows the directory, and when its files are written and read.
//
// [Dir.Backup] copies a directory that is in use. One that no engine has open is verified
// and repaired by package rescue, which reads it through an [Inspection].
package store
