package store

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A Snapshot is a run as of one commit: its row, its file, which is in memory if it is
// small, and the records that are not in it yet.
//
// The parts are read one after the other, and are of one commit nevertheless: row and records are
// read at one moment, and a file never changes under its name while the row names it. If the run
// was flushed in between, the file that the row named may be gone, and everything is read again.
//
// The records go on from the file without a gap up to the row, which is checked before anybody
// sees them. Exactly one of data and db is set if there is a file.
type Snapshot struct {
	index.Row
	Content runfile.Source // of the file; nil without one
	data    []byte         // of the file, if it is small
	db      *sqlite.Conn   // the file, where it is read page by page
	dir     *Dir
	large   *runReader // the file, where it is read page by page
	entries []*runfile.Entry
}

// maxRereads is how often a file may be replaced while we try to read it.
//
// A run is flushed again only after it has grown, so that there is time to read it in between.
const maxRereads = 100

// openSnapshot reads a run, unless ctx ends while the log of a remote directory does not answer. Close it.
//
// It reads what is on the disk, and needs nothing of the run's owner, so that any goroutine may
// look at a run while its actor works.
func (d *Dir) openSnapshot(ctx context.Context, id workflow.RunID) (*Snapshot, error) {
	for n := 0; ; n++ {
		s, err := d.readRunRecords(ctx, id)
		if err != nil {
			return nil, err
		}
		if s.Slot == 0 {
			return s, nil
		}
		err = s.openFile()
		if err == nil {
			return s, nil
		}
		// A file that was replaced in between, or has gone with its run, is no damage.
		now, again := d.readRowUntil(ctx, id)
		if again != nil {
			return nil, again
		}
		if now.Num == s.Num && now.Flushed == s.Flushed || n == maxRereads {
			return nil, err
		}
	}
}

// readRunRecords reads the row and the log of a run, at one moment, and checks them.
//
// Large values are decoded and put together without the lock, and checked then. Damage is
// believed only if the run still has the same file: a flush drops records and spills that its
// file has.
func (d *Dir) readRunRecords(ctx context.Context, id workflow.RunID) (*Snapshot, error) {
	for n := 0; ; n++ {
		s := &Snapshot{dir: d}
		var damage error
		var behind []*runfile.Entry // the records that the log in pawl.db lacks
		err := d.readIndexUntil(ctx, func(db *sqlite.Conn) (err error) {
			if s.Row, err = d.queryRow(db, id); err == nil {
				s.entries, damage, err = index.ReadLog(db, s.Num, s.Flushed)
				behind = d.entriesBehind(s.Num)
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
			s.entries = append(s.entries, behind...)
			damage = s.checkChain()
		}
		if damage == nil {
			return s, nil
		}
		// Parts that were dropped in between are no damage.
		now, err := d.readRowUntil(ctx, id)
		if err != nil {
			return nil, err
		}
		if now.Num == s.Num && now.Flushed == s.Flushed || n == maxRereads {
			return nil, &CorruptError{Run: id, File: d.pathOf(indexFile), What: "the log of the run is damaged", Err: damage}
		}
	}
}

// checkChain checks that the records go from the file to the row without a gap.
//
// The chain begins with the checksum that the row has of the last record in the file, or with
// that of the run's id, and must end with the one of the row. A log that lost its last records is
// found by that, as well as one with a record of another run, or of another history of this one.
func (s *Snapshot) checkChain() error {
	seq, sum := s.Flushed, runfile.FirstSum(s.Run)
	if s.Flushed > 0 {
		sum = s.FlushedSum
	}
	for _, e := range s.entries {
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

// filePragmas are for a file that is read.
const filePragmas = `PRAGMA trusted_schema=OFF;`

// openFile opens the file: a large one is read page by page, a small one, or one that may
// be sealed, at once.
//
// A file that SQLite reads page by page is proven first, by reading it as a whole; SQLite then
// has the same file open, which nobody changes. A sealed one has to be opened as a whole,
// whatever its size.
func (s *Snapshot) openFile() (err error) {
	if s.FileSize >= largeFile && !s.dir.sealer.IsOn() {
		err = s.openLarge()
	} else {
		err = s.readFile()
	}
	if err == nil {
		err = s.checkMeta()
	}
	if err != nil {
		s.Close()
	}
	return err
}

// openLarge opens the file with SQLite.
//
// openLarge has the memory that it takes not depend on the size of the run.
func (s *Snapshot) openLarge() (err error) {
	if s.large, err = s.dir.proveRunFile(&s.Row); err != nil {
		return err
	}
	if s.db, err = sqlite.OpenReader(s.large, filePragmas); err != nil {
		return fmt.Errorf("%s: %w", s.dir.pathOf(s.File), err)
	}
	s.Content = runfile.InDatabase(s.db)
	return nil
}

// readFile reads the file into memory.
func (s *Snapshot) readFile() error {
	data, err := s.dir.plainRunFile(&s.Row)
	if err != nil {
		return err
	}
	content, err := runfile.Open(data)
	if err != nil {
		return s.damageOf(s.File, "it cannot be read", err)
	}
	s.Content, s.data = content, data
	return nil
}

// damageOf returns err as a CorruptError of that file: what says which content is damaged.
// Two kinds of error are no damage and stay as they are: that the run's file could not be
// read just now, and that a sealed value cannot be opened.
func (s *Snapshot) damageOf(file, what string, err error) error {
	if errors.Is(err, ErrSealed) {
		return err
	}
	if s.large != nil && s.large.failed != nil {
		return fmt.Errorf("%s could not be read just now: %w", s.dir.pathOf(s.File), s.large.failed)
	}
	return &CorruptError{Run: s.Run, File: s.dir.pathOf(file), What: what, Err: err}
}

// checkMeta checks that the file is of this run and ends where the row says.
//
// The hash proves that the file is what was written; this proves that it is the one that belongs
// to the row.
func (s *Snapshot) checkMeta() error {
	run, seq, sum, err := runfile.ReadMeta(s.Content)
	switch {
	case err != nil:
	case run != s.Run:
		err = fmt.Errorf("it is the file of run %q", string(run))
	case seq != s.Flushed || string(sum) != string(s.FlushedSum[:]):
		err = fmt.Errorf("it ends with record %d, the index says %d", seq, s.Flushed)
	}
	if err != nil {
		return s.damageOf(s.File, "it cannot be read", err)
	}
	return nil
}

// ReadDatabase calls f with the file as SQLite reads it, unless the run has no file.
//
// A file that was read into memory becomes a database there.
func (s *Snapshot) ReadDatabase(f func(*sqlite.Conn) error) error {
	switch {
	case s.Content == nil, f == nil:
		return nil
	case s.db != nil:
		return f(s.db)
	}
	db, err := sqlite.Open(sqlite.Memory, filePragmas)
	if err != nil {
		return err
	}
	if err = db.Deserialize(s.data); err == nil {
		err = f(db)
	}
	_ = db.Close() // it is in memory
	return err
}

// Close closes the file.
func (s *Snapshot) Close() {
	if s.db != nil {
		_ = s.db.Close() // it was only read
		s.db = nil
	}
}

// Replay returns the state of the run: the one in its file, with the records after it
// applied. happened is called with the events of those. It fails with a *CorruptError.
//
// It is the same whoever asks: the owner that goes on with the run, and a reader that only looks.
// Nothing decides anything: the decisions of each record are applied as they are. The epoch of
// the state is that of this life, which what is dispatched from now on belongs to.
func (s *Snapshot) Replay(happened func([]decision.Event)) (*state.State, error) {
	g, err := s.dir.Graph(s.Definition)
	if err != nil {
		return nil, err
	}
	st, err := runfile.RestoreState(s.Content, s.Run, g, s.dir)
	if err != nil {
		return nil, s.damageOf(s.File, "its rows are no state", err)
	}
	if err := runfile.ApplyEntries(st, s.entries, s.DecodeEntry, happened); err != nil {
		return nil, s.damageOf(indexFile, "a record does not fit the state", err)
	}
	st.Epoch = s.dir.epoch
	st.TakeListings() // the index has them
	return st, nil
}

// DecodeEntry decodes a record of the run. It fails with ErrSealed if the codec lacks its
// key.
func (s *Snapshot) DecodeEntry(e *runfile.Entry) (decision.Record, error) {
	return s.dir.decodeEntry(s.Run, s.Content, e)
}

// Journal yields all records of the run, from the first on, as far as the chain of their
// checksums holds. The last may come with a *CorruptError.
//
// The file's records are checked while they are read; those of the log were when the snapshot was
// made. A gap between the two would be seen by the sequence with which the file's journal ends.
func (s *Snapshot) Journal() iter.Seq2[runfile.Entry, error] {
	return func(yield func(runfile.Entry, error) bool) {
		last := int64(0)
		for e, err := range runfile.CheckedJournal(s.Content, s.Run) {
			if err != nil {
				yield(runfile.Entry{}, s.damageOf(s.File, "its journal is damaged", err))
				return
			}
			if !yield(e, nil) {
				return
			}
			last = e.Seq
		}
		if last != s.Flushed {
			yield(runfile.Entry{}, s.damageOf(s.File, "its journal ends too early", nil))
			return
		}
		for _, e := range s.entries { // checked when they were read
			if !yield(*e, nil) {
				return
			}
		}
	}
}

// SourceOf returns the path of the file that a record is in: the run's, or pawl.db.
func (s *Snapshot) SourceOf(seq int64) string { return s.dir.pathOf(s.sourceOf(seq)) }

func (s *Snapshot) sourceOf(seq int64) string {
	if seq <= s.Flushed {
		return s.File
	}
	return indexFile
}
