package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// A mark is what the lock file says about pawl.db. SQLite takes a lost or an
// older write-ahead log for the truth; the mark tells.
type mark struct {
	open  bool           // an engine has the directory, or died with it
	epoch workflow.Epoch // in pawl.db; 0: nothing is said
}

const markFormat = "%s %016x\n"

// mark writes m to the lock file, for good.
func (d *Dir) mark(m mark) error {
	state := "closed"
	if m.open {
		state = "open"
	}
	text := fmt.Sprintf(markFormat, state, uint64(m.epoch))
	if err := d.lock.Truncate(0); err != nil {
		return err
	}
	if _, err := d.lock.WriteAt([]byte(text), 0); err != nil {
		return err
	}
	return d.lock.Sync()
}

// readMark reads the lock file. What is not a mark, as after a crash while one
// was written, says nothing.
func (d *Dir) readMark() (mark, error) {
	text, err := io.ReadAll(io.NewSectionReader(d.lock, 0, 64))
	if err != nil {
		return mark{}, err
	}
	var state string
	var epoch uint64
	if n, _ := fmt.Sscanf(string(text), markFormat, &state, &epoch); n != 2 {
		return mark{}, nil
	}
	return mark{open: state == "open", epoch: workflow.Epoch(epoch)}, nil
}

// checkLog finds that the write-ahead log was deleted: one is there from the
// first commit of an engine until it closes.
func (d *Dir) checkLog(m mark) error {
	if !m.open {
		return nil
	}
	_, err := d.root.Lstat(indexWAL)
	if errors.Is(err, fs.ErrNotExist) {
		return &CorruptError{File: d.at(indexWAL), What: "it is missing, but the last engine did not close"}
	}
	return err
}

// checkEpoch finds that pawl.db, or its write-ahead log, is an older one.
func (d *Dir) checkEpoch(m mark) error {
	var found workflow.Epoch
	err := d.db.Each(getEpoch, func(r *sqlite.Row) error {
		found = workflow.Epoch(r.Int64(0))
		return nil
	})
	if err != nil {
		return d.indexError(err)
	}
	if m.epoch != 0 && m.epoch != found {
		return &CorruptError{File: d.at(indexFile), What: fmt.Sprintf("it is of another time: its epoch is %v, not %v", found, m.epoch)}
	}
	return nil
}

// owns reports whether the lock file is still the one that we hold.
func (d *Dir) owns() bool {
	now, err := d.root.Lstat(lockFile)
	return err == nil && os.SameFile(now, d.owned)
}
