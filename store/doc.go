// Package store keeps the runs of one engine in one directory:
//
//	pawl.db, -wal, -sums, -tail    the log, the index of runs, the definitions
//	pawl.db-redo                   commits that pawl.db lacks yet
//	runs/4f/4f7c..-81ab..a.db      one private SQLite file per run
//	tmp/, blobs/                   files that are being built; large values, kept by package pawl
//	LOCK                           held by the process that owns the directory
//
// A commit appends a run's records to the log and brings its row in the index
// up to date, in one transaction that all runs committing at that moment share:
// one goroutine drains a channel. Most commits do nothing else; they are appended to the redo
// log, which costs a fraction of that, and stand in pawl.db later, or never, because the run's file
// has them by then. Readers see them all the same. When [Run.Commit] returns nil, everything in it
// survives a crash. A large record is spilled first, in parts, so that no commit keeps others waiting
// for long.
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
// The packages index and runfile know what is in pawl.db and in the files of runs, row by row;
// this one knows the directory, and when its files are written and read.
//
// [Dir.Backup] copies a directory that is in use. A directory that no engine has open is verified
// and repaired by package rescue, which reads it through an [Inspection].
//
// Every step is made so that a process which dies at it, or a machine that loses power, leaves a
// directory that the next Open takes as it is. In the order in which they come:
//
//   - While Open runs: nothing was acknowledged, and every step may be made once more. Between the
//     new epoch in pawl.db and the lock record that names it, the lock file says that nothing is
//     known, so that the next Open checks everything.
//   - Before the COMMIT of a transaction: the write-ahead log has frames without an end, which
//     SQLite passes over. No caller of that transaction was answered.
//   - Between the COMMIT and the answer: the records are there or, after a loss of power before
//     the sync, not there; never a part of them. A caller that asks again finds a run that has taken the
//     message, and the message is a repetition.
//   - Between the parts of a spill: no record names the parts, and the next Open drops them.
//   - While a commit is appended to the redo log: a frame that is not whole does not count. Once it is whole, the
//     next Open executes it.
//   - While commits move from the redo log into pawl.db: both have some of them, and to execute those of
//     the redo log again changes nothing.
//   - While a file is built, renamed and synced: the index names the old file, and the log has all
//     records behind that. The flush is made again, over the file that nobody names.
//   - After the index names the new file: the records that it holds may still be in the log. They
//     are dead, for a reader begins behind the last record of the file; the next Open drops
//     them. The old file may be left, under the name that the next flush of the run writes to.
//   - In a checkpoint: SQLite moves the log into pawl.db again, page by page, with the same outcome.
//   - While Close runs: once the log is moved, the lock record says that pawl.db is closed, first
//     without its hash and then with it. Without a hash, the next Open checks what it would
//     otherwise only have compared.
//
// A [Dir.Fence] has the same outcome as a crash, without the death of the process.
//
// The connection to pawl.db is guarded by one lock, which a transaction holds from its first
// statement to its sync. Readers take another lock before it, one after the other, so that a
// commit never waits for more than one of them; they read lists in pages, and large records in
// parts. Large values are encoded, encrypted and decoded before or after, without the lock.
//
// The order of the three layers is: the owner of a run plans, and calls [Run.Commit], which
// blocks; only then do effects leave; and from time to time the owner calls [Run.Flush], which
// does not block. Commits wait for flushes in one case only, when thousands of runs wait for
// their files.
package store
