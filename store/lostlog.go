package store

import (
	"errors"
	"io/fs"

	"github.com/pawl-run/pawl/internal/sqlite"
)

// SQLite opens a pawl.db without its write-ahead log, or with a log of another time,
// without a word, and the commits in the log are lost. The lock record tells whether a
// log must be there.

// checkLogPresent refuses a directory whose write-ahead log was deleted or damaged: a log is
// there from the first commit of an engine until it closes.
//
// The frames of a log that was synced at each commit are whole up to the last commit, so that a
// frame which is damaged before others that are whole shows that commits are lost: SQLite would
// stop there without a word. Where commits are not synced a loss of power may leave just that,
// and nothing that was promised is lost.
func (d *Dir) checkLogPresent(m lockRecord) error {
	if m.state == stateClosed {
		return nil
	}
	log, err := d.readFile(indexWAL)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &CorruptError{File: d.pathOf(indexWAL), What: "it is missing, but the last engine did not close"}
	case err != nil:
		return err
	case m.state != stateSynced:
		return nil // the order of its frames on disk tells nothing
	}
	if err := sqlite.CheckWAL(log); err != nil {
		return &CorruptError{File: d.pathOf(indexWAL), What: "commits would be lost", Err: err}
	}
	return nil
}

// checkStaleLog refuses a write-ahead log that would change a pawl.db that was closed.
// Everything is in such a pawl.db, so the log is an older one, or another program's. The
// last log itself may be back, for its removal need not be durable: it changes nothing.
//
// To find out, the log is not executed but compared, page by page, with pawl.db.
func (d *Dir) checkStaleLog(m lockRecord) error {
	if m.state != stateClosed || m.hash == "" {
		return nil
	}
	log, err := d.readFile(indexWAL)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	db, err := d.openRegular(indexFile)
	if err != nil {
		return err
	}
	changes := false
	info, err := db.Stat()
	if err == nil {
		changes, err = sqlite.WALChanges(log, db, info.Size())
	}
	_ = db.Close() // it was only read
	if changes {
		return &CorruptError{File: d.pathOf(indexWAL), What: "it is not the log of the pawl.db that was closed, and would change it"}
	}
	return err
}
