package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// ErrNotOurs says that a directory is not one of an engine.
var ErrNotOurs = errors.New("it is no engine directory: it has neither pawl.db nor runs")

// An inspection is a directory that is looked at and not opened. Nothing in it is
// changed: its Dir reads the files of runs where they are, and a copy of pawl.db.
type inspection struct {
	*Dir    // with neither committer nor flusher; without db if pawl.db cannot be read
	temp    string
	trusted bool  // pawl.db is what the last engine left
	changed error // pawl.db has other bytes, in whichever place
	report  Report
}

// openInspection begins an inspection. Close it. It fails if the directory cannot be
// looked at; what is wrong with pawl.db is in the report.
func openInspection(path string) (*inspection, error) {
	in := &inspection{
		Dir:     &Dir{path: path, options: Options{Logger: slog.New(slog.DiscardHandler)}},
		trusted: true, report: Report{Path: path},
	}
	err := in.holdDirectory()
	if err == nil {
		in.temp, err = os.MkdirTemp("", "pawl-inspect-")
	}
	if err == nil {
		err = in.inspectIndex()
	}
	if err != nil {
		return nil, errors.Join(err, in.closeInspection())
	}
	return in, nil
}

// holdDirectory finds the directory and keeps engines away from it.
func (in *inspection) holdDirectory() (err error) {
	if in.root, err = os.OpenRoot(in.path); err != nil {
		return err
	}
	_, noIndex := in.root.Lstat(indexFile)
	_, noRuns := in.root.Lstat(runsDir)
	if noIndex != nil && noRuns != nil {
		return ErrNotOurs
	}
	var unfinished *CorruptError
	switch err := in.checkFinished(); {
	case errors.As(err, &unfinished):
		in.addDamage("", unfinishedFile, unfinished, "remove the folder, and make another copy")
	case err != nil:
		return err
	}
	if err := checkName(in.pathOf(lockName), os.Lstat); err != nil {
		return err
	}
	in.lock, err = takeSharedLock(in.pathOf(lockName))
	if errors.Is(err, fs.ErrNotExist) {
		in.addNote(lockName, "make sure that no engine has the directory open", "it is missing, so nothing tells whether pawl.db is the last one")
		return nil
	}
	return err
}

func (in *inspection) closeInspection() error {
	err := in.closeHandles()
	if in.temp != "" {
		err = errors.Join(err, os.RemoveAll(in.temp))
	}
	return err
}

// inspectIndex copies pawl.db with its log, opens the copy, and compares it with
// the lock record. It fails only if a newer version wrote it, or the disk fails.
func (in *inspection) inspectIndex() error {
	m := lockRecord{state: stateClosed}
	if in.lock != nil {
		var err error
		if m, err = in.readLockRecord(); err != nil {
			return err
		}
	}
	if err := in.checkNames(); err != nil {
		in.distrustIndex(".", err)
	}
	data, err := in.readStart(indexFile)
	if errors.Is(err, fs.ErrNotExist) {
		err = &CorruptError{File: in.pathOf(indexFile), What: "it is missing"}
	}
	if err == nil {
		err = in.checkHeader(data, indexFile, index.ID, index.Version)
	}
	if err == nil {
		if err := in.checkLogPresent(m); err != nil {
			in.distrustIndex(indexWAL, err)
		}
		err = in.openCopy(true)
	}
	switch {
	case errors.Is(err, ErrVersion):
		return err
	case err != nil && !errors.Is(err, ErrCorrupt):
		return err
	case err != nil:
		in.distrustIndex(indexFile, err)
		return nil
	}
	in.inspectCopy(m)
	return nil
}

// distrustIndex notes that pawl.db is not what the last engine left.
func (in *inspection) distrustIndex(file string, err error) {
	in.trusted = false
	in.addDamage("", file, err, doRepair)
}

// openCopy opens a copy of pawl.db, with its log or without.
func (in *inspection) openCopy(log bool) error {
	err := in.copyOut(indexFile)
	if err != nil {
		return err
	}
	if log {
		if err := in.copyOut(indexWAL); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	in.db, err = sqlite.Open(filepath.Join(in.temp, indexFile), `PRAGMA locking_mode=EXCLUSIVE; PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; SELECT count(*) FROM sqlite_schema;`)
	if err != nil {
		in.db = nil
	}
	return in.indexError(err)
}

// dropLog opens another copy of pawl.db, without its log.
func (in *inspection) dropLog() error {
	err := in.db.Close()
	in.db = nil
	if gone := os.RemoveAll(filepath.Join(in.temp, indexWAL)); err == nil {
		err = gone
	}
	if err == nil {
		err = in.openCopy(false)
	}
	return err
}

// copyOut copies a file of the directory into ours.
func (in *inspection) copyOut(name string) error {
	from, err := in.openRegular(name)
	if err != nil {
		return err
	}
	to, err := os.OpenFile(filepath.Join(in.temp, name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err == nil {
		_, err = io.Copy(to, from)
		if closed := to.Close(); err == nil {
			err = closed
		}
	}
	_ = from.Close() // it was only read
	return err
}

// inspectCopy looks for damage of the copy as a whole.
func (in *inspection) inspectCopy(m lockRecord) {
	if m.epoch != 0 {
		var found workflow.Epoch
		err := in.readIndex(func(db *sqlite.Conn) (err error) { found, err = index.ReadEpoch(db); return err })
		if err == nil && found != m.epoch {
			err = &CorruptError{File: in.pathOf(indexFile), What: fmt.Sprintf("it is of another time: its epoch is %v, not %v", found, m.epoch)}
		}
		if err != nil {
			in.distrustIndex(indexFile, err)
		}
	}
	if stale := in.checkStaleLog(m); stale != nil && in.trusted { // it is of the same time
		in.addDamage("", indexWAL, stale, "move it away: everything is in pawl.db")
		if err := in.dropLog(); err != nil {
			in.distrustIndex(indexFile, err)
			return
		}
	}
	if in.changed = in.checkIndexHash(m); in.changed != nil && !errors.Is(in.changed, ErrCorrupt) {
		in.distrustIndex(indexFile, in.changed)
	}
	if in.changed != nil && in.trusted {
		if fingerprint, err := index.FingerprintOf(in.db); err != nil {
			in.distrustIndex(indexFile, err)
		} else if fingerprint != m.fingerprint {
			in.distrustIndex(indexFile, fmt.Errorf("it is of another moment: its runs and records are %s, not %s", fingerprint, m.fingerprint))
		}
	}
	if wrong, err := index.CheckIntegrity(in.db); err != nil {
		in.distrustIndex(indexFile, err)
	} else if wrong != "" {
		in.distrustIndex(indexFile, errors.New(wrong))
	}
}
