// Package runfile writes and reads the file of a run: a small SQLite database with the run's state, its journal and
// its events. It takes changes of a state and gives the bytes of a file, and takes a database and gives the rows of a
// state. Which file is whose, and where it is, is the business of package store.
//
// A file is never changed in place. Each flush makes a new one, from the old one and what has changed since, and it
// takes the place of the old one when it is complete and durable. So a crash leaves the one or the other, and nothing
// here has to mind it.
//
// SQLite is not needed for that, neither to write nor to read. Small files, which most are, are made and read as
// bytes, by [Builder] and [Open]; [WriteFile] and [OpenAt] do the same for large ones, which need not be in memory,
// unless they are sealed. [InDatabase] reads a file that is open in SQLite. A [Target] and a [Source] stand for
// these. The tests compare the files with those that SQLite would make, row by row.
package runfile
