package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// A slot is one of the two names between which a run's file alternates, so that
// a file in use is never written over.
type slot uint8

// other returns the slot of the next file.
func (s slot) other() slot {
	if s == 1 {
		return 2
	}
	return 1
}

// fileName returns where a run's file is below the directory. Nothing of the id
// but its hash is in it, so any id is safe. The nonce is never used twice: a
// run that is purged and started again has other names.
func fileName(id workflow.RunID, nonce uint64, s slot) string {
	sum := sha256.Sum256([]byte(id))
	hash := hex.EncodeToString(sum[:16])
	return path.Join(runsDir, hash[:2], fmt.Sprintf("%s-%016x%c.db", hash, nonce, " ab"[s]))
}

// readRunFile returns the bytes of the file that a row names, proven to be what
// was written.
func (d *Dir) readRunFile(r *row) ([]byte, error) {
	data, err := d.readFile(r.File)
	if err == nil {
		err = d.checkHeader(data, r.File, fileID, fileVersion)
	}
	if err != nil {
		return nil, d.badFile(r, err)
	}
	if sum := pace.Sum256(data); string(sum[:]) != string(r.fileHash) {
		return nil, d.badFile(r, errChanged)
	}
	return data, nil
}

// errChanged says that a file is whole, but not what was written.
var errChanged = errors.New("it is damaged, changed or another file")

// badFile returns the error of a file that could not be read.
func (d *Dir) badFile(r *row, err error) error {
	damaged := func(what string) error { return &CorruptError{Run: r.Run, File: d.at(r.File), What: what} }
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return damaged("the file is missing")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return damaged("the file is cut short")
	case errors.Is(err, errChanged):
		return damaged(errChanged.Error())
	default:
		return ofRun(err, r.Run)
	}
}

// ofRun adds the run to an error about its file.
func ofRun(err error, id workflow.RunID) error {
	if c := (*CorruptError)(nil); errors.As(err, &c) {
		c.Run = id
	}
	return err
}

// A snapshot is a run as of one commit: its row, its file in memory, and the
// records that are not in it yet.
type snapshot struct {
	row
	file    *sqlite.Conn // nil without a file
	entries []entry
}

// maxRereads is how often a file may be replaced while we try to read it.
const maxRereads = 100

// snapshot reads a run. Close it.
func (d *Dir) snapshot(id workflow.RunID) (*snapshot, error) {
	for n := 0; ; n++ {
		s, err := d.readIndex(id)
		if err != nil {
			return nil, err
		}
		if s.slot == 0 {
			return s, nil
		}
		err = s.open(d)
		if err == nil {
			return s, nil
		}
		// A file that was replaced in between is no damage.
		now, again := d.row(id)
		if again != nil || now.filed == s.filed || n == maxRereads {
			return nil, err
		}
	}
}

// readIndex reads the row and the log of a run, at one moment, and checks them.
func (d *Dir) readIndex(id workflow.RunID) (*snapshot, error) {
	for n := 0; ; n++ {
		s := &snapshot{}
		var damage error
		err := d.read(func(db *sqlite.Conn) (err error) {
			if s.row, err = getRow(db, id); err == nil {
				s.entries, damage, err = readLog(db, s.num, s.filed)
			}
			return err
		})
		if err == nil {
			err = s.row.decode(d)
		}
		if err == nil {
			s.entries, damage, err = d.unpack(s.entries, damage)
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
		now, err := d.row(id)
		if err != nil {
			return nil, err
		}
		if now.num == s.num && now.filed == s.filed || n == maxRereads {
			return nil, &CorruptError{Run: id, File: d.at(indexFile), What: "the log of the run is damaged", Err: damage}
		}
	}
}

// checkChain checks that the records go from the file to the row without a gap.
func (s *snapshot) checkChain() error {
	seq, sum := s.filed, firstSum(s.Run)
	if s.filed > 0 {
		sum = s.filedSum
	}
	for i := range s.entries {
		e := &s.entries[i]
		if err := e.follows(seq, sum); err != nil {
			return err
		}
		seq, sum = e.Seq, e.sum
	}
	if seq != s.Seq || sum != s.row.sum {
		return fmt.Errorf("it ends with record %d, the index says %d", seq, s.Seq)
	}
	return nil
}

const getMeta = `SELECT run, seq, sum FROM meta`

// open reads the file and makes it a database in memory.
func (s *snapshot) open(d *Dir) error {
	data, err := d.readRunFile(&s.row)
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
		s.close()
		return &CorruptError{Run: s.Run, File: d.at(s.File), What: "it cannot be read", Err: err}
	}
	return nil
}

// checkMeta checks that the file is of this run and ends where the row says.
func (s *snapshot) checkMeta() error {
	found, err := s.file.One(getMeta, func(r *sqlite.Row) error {
		if run := workflow.RunID(r.Text(0)); run != s.Run {
			return fmt.Errorf("it is the file of run %q", string(run))
		}
		if seq := r.Int64(1); seq != s.filed || string(r.Bytes(2)) != string(s.filedSum[:]) {
			return fmt.Errorf("it ends with record %d, the index says %d", seq, s.filed)
		}
		return nil
	})
	if err == nil && !found {
		err = errors.New("it does not say of which run it is")
	}
	return err
}

func (s *snapshot) close() {
	if s.file != nil {
		_ = s.file.Close() // it is in memory
		s.file = nil
	}
}
