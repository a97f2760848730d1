// Package runfile writes and reads the file of a run: a small SQLite database with the
// run's state, its journal and its events. It takes changes of a state and gives the bytes
// of a file, and takes a database and gives the rows of a state. Which file is whose, and
// where it is, is the business of package store.
package runfile
