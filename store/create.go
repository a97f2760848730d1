package store

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/pawl-run/pawl/internal/index"
)

// checkIndex checks pawl.db, or makes it.
//
// The checks come in this order: that a log is there which must be there; that pawl.db is of the
// last life, its pages and rows are sound where no hash says so, and the redo log that it names is
// there, and whole; that it has the hash that it was closed with; that the log would not change it then; and that it has as many runs and
// records as it was closed with. Each presupposes the ones before it. None changes anything, so
// that a directory which is refused can be looked at, or be put right, as it was found.
//
// A log without an epoch in the lock record means that somebody has removed the lock file, or
// that an Open was cut short. In the first case an engine may still have pawl.db open: see
// rewriteFiles.
func (d *Dir) checkIndex() error {
	data, err := d.readStart(indexFile)
	if errors.Is(err, fs.ErrNotExist) {
		return d.createIndex()
	}
	if err != nil {
		return err
	}
	if err := d.checkFormat(data); err != nil {
		return err
	}
	was, err := d.readLockRecord()
	if d.was = was; err != nil {
		return err
	}
	for _, check := range []func(lockRecord) error{d.checkLogPresent, d.checkEpoch, d.checkIndexHash, d.checkStaleLog, d.checkFingerprint} {
		if err := check(was); err != nil {
			return err
		}
	}
	d.erase = was.state != stateClosed // what the last engine purged before it died
	d.eraseTail = d.erase
	log, err := d.hasName(indexWAL)
	if err == nil && log && was.epoch == 0 {
		err = d.rewriteFiles()
	}
	return err
}

// createIndex makes pawl.db, whole or not at all, in a directory without runs.
//
// A crash before the renaming leaves pawl.db.new, which the next Open writes anew. A directory
// with runs or a log, and without pawl.db, has lost it: an empty one in its place would hide
// that.
func (d *Dir) createIndex() error {
	for _, name := range []string{runsDir, indexWAL, redoFile} {
		is, err := d.hasName(name)
		if err != nil {
			return err
		}
		if is {
			return &CorruptError{File: d.pathOf(indexFile), What: "it is missing, but there is " + name}
		}
	}
	data, err := index.NewDatabase()
	if err != nil {
		return fmt.Errorf("create %s: %w", indexFile, err)
	}
	const building = indexFile + ".new"
	if err := d.writeFile(building, data, true); err != nil {
		return err
	}
	d.hook.Hit("open.create")
	if err := d.checkOwnerAtOpen(); err != nil {
		return err
	}
	if err := d.root.Rename(building, indexFile); err != nil {
		return err
	}
	if err := d.syncDir("."); err != nil {
		return err
	}
	// The maker of the directory may not have made its name durable. Where the folder above may
	// not be read, that is not ours to do.
	if err := syncAbove(d.path); !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// makeLogDurable makes the write-ahead log, if it is missing, and its name durable: SQLite does
// not tell if it could not.
//
// The first commit syncs the contents of the log, and not that it has a name: a loss of power
// could take the name, with all that was acknowledged. The check that a log must be there would
// then refuse the directory, and rightly so.
func (d *Dir) makeLogDurable() error {
	is, err := d.hasName(indexWAL)
	if err == nil && !is {
		if err = d.writeFile(indexWAL, nil, false); err == nil {
			err = d.syncDir(".")
		}
	}
	return err
}
