package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// readRunFile returns the bytes of the file that a row names, proven to be what
// was written.
func (d *Dir) readRunFile(r *index.Row) ([]byte, error) {
	data, err := d.readFile(r.File)
	if err == nil {
		err = d.checkHeader(data, r.File, runfile.ID, runfile.Version)
	}
	if err != nil {
		return nil, d.fileError(r, err)
	}
	if sum := pace.Sum256(data); string(sum[:]) != string(r.FileHash) {
		return nil, d.fileError(r, errChanged)
	}
	return data, nil
}

// errChanged says that a file is whole, but not what was written.
var errChanged = errors.New("it is damaged, changed or another file")

// fileError returns the error of a file that could not be read.
func (d *Dir) fileError(r *index.Row, err error) error {
	damaged := func(what string) error { return &CorruptError{Run: r.Run, File: d.pathOf(r.File), What: what} }
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return damaged("the file is missing")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return damaged("the file is cut short")
	case errors.Is(err, errChanged):
		return damaged(errChanged.Error())
	default:
		return withRun(err, r.Run)
	}
}

// withRun adds the run to an error about its file.
func withRun(err error, id workflow.RunID) error {
	if c := (*CorruptError)(nil); errors.As(err, &c) {
		c.Run = id
	}
	return err
}

// A snapshot is a run as of one commit: its row, its file in memory, and the
// records that are not in it yet.
type snapshot struct {
	index.Row
	file    *sqlite.Conn // nil without a file
	entries []runfile.Entry
}

// maxRereads is how often a file may be replaced while we try to read it.
const maxRereads = 100

// openSnapshot reads a run. Close it.
func (d *Dir) openSnapshot(id workflow.RunID) (*snapshot, error) {
	for n := 0; ; n++ {
		s, err := d.readRunRecords(id)
		if err != nil {
			return nil, err
		}
		if s.Slot == 0 {
			return s, nil
		}
		err = s.openFile(d)
		if err == nil {
			return s, nil
		}
		// A file that was replaced in between is no damage.
		now, again := d.readRow(id)
		if again != nil || now.Flushed == s.Flushed || n == maxRereads {
			return nil, err
		}
	}
}

// readRunRecords reads the row and the log of a run, at one moment, and checks them.
func (d *Dir) readRunRecords(id workflow.RunID) (*snapshot, error) {
	for n := 0; ; n++ {
		s := &snapshot{}
		var damage error
		err := d.readIndex(func(db *sqlite.Conn) (err error) {
			if s.Row, err = queryRow(db, id); err == nil {
				s.entries, damage, err = index.ReadLog(db, s.Num, s.Flushed)
			}
			return err
		})
		if err == nil {
			err = d.decodeRow(&s.Row)
		}
		if err == nil {
			s.entries, damage, err = d.completeEntries(s.entries, damage)
		}
		if err != nil {
			return nil, err
		}
		if damage == nil {
			damage = s.checkChain()
		}
		if damage == nil {
			return s, nil
		}
		// Parts that were dropped in between are no damage.
		now, err := d.readRow(id)
		if err != nil {
			return nil, err
		}
		if now.Num == s.Num && now.Flushed == s.Flushed || n == maxRereads {
			return nil, &CorruptError{Run: id, File: d.pathOf(indexFile), What: "the log of the run is damaged", Err: damage}
		}
	}
}

// checkChain checks that the records go from the file to the row without a gap.
func (s *snapshot) checkChain() error {
	seq, sum := s.Flushed, runfile.FirstSum(s.Run)
	if s.Flushed > 0 {
		sum = s.FlushedSum
	}
	for i := range s.entries {
		e := &s.entries[i]
		if err := e.CheckFollows(seq, sum); err != nil {
			return err
		}
		seq, sum = e.Seq, e.Sum
	}
	if seq != s.Seq || sum != s.Row.Sum {
		return fmt.Errorf("it ends with record %d, the index says %d", seq, s.Seq)
	}
	return nil
}

// openFile reads the file and makes it a database in memory.
func (s *snapshot) openFile(d *Dir) error {
	data, err := d.readRunFile(&s.Row)
	if err != nil {
		return err
	}
	if s.file, err = sqlite.Open(sqlite.Memory, `PRAGMA trusted_schema=OFF`); err != nil {
		return err
	}
	if err = s.file.Deserialize(data); err == nil {
		err = s.checkMeta()
	}
	if err != nil {
		s.closeFile()
		return &CorruptError{Run: s.Run, File: d.pathOf(s.File), What: "it cannot be read", Err: err}
	}
	return nil
}

// checkMeta checks that the file is of this run and ends where the row says.
func (s *snapshot) checkMeta() error {
	run, seq, sum, err := runfile.ReadMeta(s.file)
	switch {
	case err != nil:
		return err
	case run != s.Run:
		return fmt.Errorf("it is the file of run %q", string(run))
	case seq != s.Flushed || string(sum) != string(s.FlushedSum[:]):
		return fmt.Errorf("it ends with record %d, the index says %d", seq, s.Flushed)
	}
	return nil
}

func (s *snapshot) closeFile() {
	if s.file != nil {
		_ = s.file.Close() // it is in memory
		s.file = nil
	}
}
