package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/seal"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// ErrNotOurs says that a directory is not one of an engine.
var ErrNotOurs = errors.New("it is no engine directory: it has neither pawl.db nor runs")

// An Inspection is a directory that is looked at and not opened. Nothing in it is
// changed: the files of runs are read where they are, and pawl.db as a copy. It belongs to
// one goroutine.
//
// It answers what is wrong, so it goes on where an engine would refuse: a fault of the directory
// as a whole is noted, and the runs are looked at all the same. dir is a Dir that was never
// opened; only its methods that read are used.
type Inspection struct {
	Faults  []Fault    // of the directory as a whole, in the order in which they were found
	Trusted bool       // pawl.db is what the last engine left, as the lock record says, and that engine had no doubt of it
	Changed error      // pawl.db has other bytes, in whichever place
	Sealed  seal.Watch // what of the sealed values could be opened

	dir  *Dir // with neither committer nor flusher; without db if pawl.db cannot be read
	temp string
}

// A Fault is something that is wrong with a directory as a whole.
type Fault struct {
	File     string // below the directory
	Err      error
	Do       string // what to do about it; "" if the directory needs a repair
	Harmless bool   // nothing is damaged or missing
}

// Inspect looks at the engine directory at path, which no engine has open, and keeps
// engines away from it. Close it. It needs room for a copy of pawl.db among the temporary
// files. It fails if the directory cannot be looked at: with ErrLocked if an engine has it
// open, ErrVersion if a newer version wrote pawl.db, ErrNotOurs. Faults has what is wrong
// with pawl.db.
//
// The codec opens sealed values. If it is nil or lacks the key, values stay closed, and in.Sealed says which
// keys are missing.
func Inspect(path string, c Codec) (*Inspection, error) {
	sealer, err := seal.NewSealer(c)
	if err != nil {
		return nil, err
	}
	in := &Inspection{
		dir: &Dir{path: path, options: Options{Logger: slog.New(slog.DiscardHandler), Codec: c}},
	}
	in.dir.sealer = sealer.Watched(&in.Sealed)
	err = in.holdDirectory()
	if err == nil {
		in.temp, err = os.MkdirTemp("", "pawl-inspect-")
	}
	if err == nil {
		err = in.inspectIndex()
	}
	if err != nil {
		return nil, errors.Join(typedError(err), in.Close())
	}
	if in.dir.db == nil {
		in.dir.dead = &CorruptError{File: in.dir.pathOf(indexFile), What: "it cannot be read"}
	}
	return in, nil
}

// holdDirectory finds the directory and keeps engines away from it.
//
// The lock is shared, so that several inspections may go on at the same time, and no engine
// begins. A command that is about to end is waited for, and an engine is not.
func (in *Inspection) holdDirectory() (err error) {
	if in.dir.root, err = os.OpenRoot(in.dir.path); err != nil {
		return err
	}
	_, noIndex := in.dir.root.Lstat(indexFile)
	_, noRuns := in.dir.root.Lstat(runsDir)
	if noIndex != nil && noRuns != nil {
		return ErrNotOurs
	}
	var unfinished *CorruptError
	switch err := in.dir.checkFinished(); {
	case errors.As(err, &unfinished):
		in.addFault(unfinishedFile, unfinished, "remove the folder, and make another copy")
	case err != nil:
		return err
	}
	if err := checkName(in.dir.pathOf(lockName), os.Lstat); err != nil {
		return err
	}
	in.dir.lock, err = takeSharedLock(context.Background(), in.dir.pathOf(lockName), lockWish{limit: lockWait, gives: true, forOther: true})
	if errors.Is(err, fs.ErrNotExist) {
		in.noteNoRecord("it is missing")
		return nil
	}
	return err
}

// noteNoRecord notes that there is no lock record, and why.
func (in *Inspection) noteNoRecord(why string) {
	in.Faults = append(in.Faults, Fault{
		File: lockName, Err: errors.New(why + ", so nothing tells whether pawl.db is the last one"),
		Do: "make sure that no engine has the directory open", Harmless: true,
	})
}

// Close ends the inspection. Its methods fail from then on.
//
// The copy of pawl.db goes with it.
func (in *Inspection) Close() error {
	if errors.Is(in.dir.dead, ErrClosed) {
		return nil
	}
	in.dir.dead = ErrClosed
	err := in.dir.closeHandles()
	if in.temp != "" {
		err = errors.Join(err, os.RemoveAll(in.temp))
	}
	return err
}

func (in *Inspection) addFault(file string, err error, do string) {
	in.Faults = append(in.Faults, Fault{File: file, Err: err, Do: do})
}

// inspectIndex copies pawl.db with its log, opens the copy, and compares it with
// the lock record. It fails only if a newer version wrote it, or the disk fails.
//
// The checks are those of Open as a rule, but one that fails is noted, and the next one made.
func (in *Inspection) inspectIndex() error {
	m := lockRecord{}
	if in.dir.lock != nil {
		var err error
		if m, err = in.dir.readLockRecord(); err != nil {
			return err
		}
		if m == (lockRecord{}) {
			in.noteNoRecord("it has no record")
		}
	}
	in.Trusted = m != lockRecord{}
	if err := in.dir.checkNames(); err != nil {
		in.distrustIndex(".", err)
	}
	data, err := in.dir.readStart(indexFile)
	if errors.Is(err, fs.ErrNotExist) {
		err = &CorruptError{File: in.dir.pathOf(indexFile), What: "it is missing"}
	}
	if err == nil {
		err = in.dir.checkHeader(data, indexFile, index.ID, index.Version)
	}
	if err == nil {
		if err := in.dir.checkLogPresent(m); err != nil {
			in.distrustIndex(indexWAL, err)
		}
		err = in.openCopy(true)
	}
	if err == nil {
		in.replayRedo(m)
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
	in.Trusted = in.Trusted && !m.leavesDoubt()
	_ = in.dir.checkMark() // that it cannot be opened is in Sealed
	return nil
}

// distrustIndex notes that pawl.db is not what the last engine left.
func (in *Inspection) distrustIndex(file string, err error) {
	in.Trusted = false
	in.addFault(file, err, "")
}

// openCopy opens a copy of pawl.db, with its log or without.
//
// The original is not opened by SQLite, which would execute its log in it and take that away:
// what is damaged must stay as it was found, for whoever repairs it.
func (in *Inspection) openCopy(log bool) error {
	err := in.copyOut(indexFile)
	if err != nil {
		return err
	}
	if log {
		if err := in.copyOut(indexWAL); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	in.dir.db, err = sqlite.Open(filepath.Join(in.temp, indexFile), `PRAGMA locking_mode=EXCLUSIVE; PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; SELECT count(*) FROM sqlite_schema;`)
	if err != nil {
		in.dir.db = nil
	}
	return in.dir.indexError(err)
}

// dropLog opens another copy of pawl.db, without its log.
//
// It is for a log that does not belong to the pawl.db beside it.
func (in *Inspection) dropLog() error {
	err := in.dir.db.Close()
	in.dir.db = nil
	if gone := os.RemoveAll(filepath.Join(in.temp, indexWAL)); err == nil {
		err = gone
	}
	if err == nil {
		err = in.openCopy(false)
	}
	return err
}

// copyOut copies a file of the directory into ours.
func (in *Inspection) copyOut(name string) error {
	from, err := in.dir.openRegular(name)
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
//
// It goes from the whole to the details: the time that it is of, whether the log belongs to it,
// whether its bytes are those that were closed, whether its runs are as many, whether SQLite can
// read it.
func (in *Inspection) inspectCopy(m lockRecord) {
	if m.epoch != 0 {
		var found state.Epoch
		err := in.dir.readIndex(func(db *sqlite.Conn) (err error) { found, err = index.ReadEpoch(db); return err })
		if err == nil && found != m.epoch {
			err = &CorruptError{File: in.dir.pathOf(indexFile), What: fmt.Sprintf("it is of another time: its epoch is %v, not %v", found, m.epoch)}
		}
		if err != nil {
			in.distrustIndex(indexFile, err)
		}
	}
	if stale := in.dir.checkStaleLog(m); stale != nil && in.Trusted { // it is of the same time
		in.addFault(indexWAL, stale, "move it away: everything is in pawl.db")
		if err := in.dropLog(); err != nil {
			in.distrustIndex(indexFile, err)
			return
		}
	}
	if in.Changed = in.dir.checkIndexHash(m); in.Changed != nil && !errors.Is(in.Changed, ErrCorrupt) {
		in.distrustIndex(indexFile, in.Changed)
	}
	if in.Changed != nil && in.Trusted {
		if wrong, err := compareFingerprint(in.dir.db, m.fingerprint); err != nil {
			in.distrustIndex(indexFile, err)
		} else if wrong != "" {
			in.distrustIndex(indexFile, errors.New(wrong))
		}
	}
	if wrong, err := index.CheckIntegrity(in.dir.db); err != nil {
		in.distrustIndex(indexFile, err)
	} else if wrong != "" {
		in.distrustIndex(indexFile, errors.New(wrong))
	}
}

// HasIndex reports whether the tables of pawl.db can be read.
func (in *Inspection) HasIndex() bool { return in.dir.db != nil }

// ReadIndex calls f with a connection to a copy of pawl.db. It fails with ErrCorrupt if
// SQLite cannot read it, and with ErrClosed.
func (in *Inspection) ReadIndex(f func(*sqlite.Conn) error) error { return in.dir.readIndex(f) }

// Path returns the path of the directory.
func (in *Inspection) Path() string { return in.dir.path }

const allRunIDs = `SELECT id FROM runs ORDER BY num`

// RunIDs returns the ids of all runs in the index, in the order in which they came there. An
// error comes with those that could be read.
func (in *Inspection) RunIDs() (ids []workflow.RunID, err error) {
	err = in.dir.readIndex(func(db *sqlite.Conn) error {
		return db.Each(allRunIDs, func(r *sqlite.Row) error { ids = append(ids, workflow.RunID(r.Text(0))); return nil })
	})
	return ids, err
}

// FS returns the files of the directory.
func (in *Inspection) FS() fs.FS { return in.dir.root.FS() }

// AddDefinition remembers a compiled definition for Graph and the snapshots.
func (in *Inspection) AddDefinition(g *compiled.Graph) { in.dir.AddDefinition(g) }

// Graph returns the compiled definition with a hash. It fails with ErrCorrupt.
func (in *Inspection) Graph(hash string) (*compiled.Graph, error) { return in.dir.Graph(hash) }

// Row returns the row of a run, also if it comes with ErrCorrupt, as far as it could be
// read. It fails with ErrRunNotFound.
func (in *Inspection) Row(id workflow.RunID) (index.Row, error) { return in.dir.readRow(id) }

const scanHead = index.RunColumns + `NOT INDEXED WHERE id = ?`

// FindRow returns the row of a run as Row does, and finds it as well if the index over ids is
// damaged. It fails with ErrRunNotFound also if pawl.db cannot be read.
//
// A repair wants every run that has a row left.
func (in *Inspection) FindRow(id workflow.RunID) (index.Row, error) {
	if in.dir.db == nil {
		return index.Row{}, fmt.Errorf("%w: %q", ErrRunNotFound, string(id))
	}
	out, err := in.dir.readRow(id)
	if out.Num == 0 && err != nil { // the index over ids may be what is damaged
		_ = in.dir.readIndex(func(db *sqlite.Conn) (err error) { // as if it were not there
			_, err = db.One(scanHead, func(x *sqlite.Row) error { out = index.ScanRow(x); return nil }, string(id))
			return err
		})
		if out.Num != 0 {
			err = in.dir.decodeRow(&out)
		}
	}
	return out, err
}

// Snapshot reads a run: its row, its file, and the records behind that. Close it.
func (in *Inspection) Snapshot(id workflow.RunID) (*Snapshot, error) {
	return in.dir.openSnapshot(context.Background(), id)
}

// Records returns the records of run num in the log behind a sequence, as far as they can be
// read, and why there are no more.
//
// The readable records are returned with the damage, and not instead of it.
func (in *Inspection) Records(num, after int64) ([]*runfile.Entry, error) {
	var entries []*runfile.Entry
	var damage error
	err := in.dir.readIndex(func(db *sqlite.Conn) (err error) {
		entries, damage, err = index.ReadLog(db, num, after)
		return err
	})
	entries, damage, broken := in.dir.completeEntries(entries, damage) // as far as they could be read
	if damage != nil {
		entries = entries[:len(entries)-1]
	}
	return entries, errors.Join(err, broken, damage)
}

// CheckRunFile fails with a *CorruptError if the file that a row names is not what was
// written.
func (in *Inspection) CheckRunFile(r index.Row) error {
	f, err := in.dir.proveRunFile(&r)
	if err == nil {
		err = f.Close()
	}
	return err
}

// recoverPragmas have SQLite read what it can of a file that is cut short, which it
// does only for those who may write to the schema.
const recoverPragmas = `PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA writable_schema=ON;`

// DecodeEntry decodes a record of a run; c is the file of the run, or nil. It fails with
// ErrSealed if the codec lacks its key.
func (in *Inspection) DecodeEntry(id workflow.RunID, c runfile.Source, e *runfile.Entry) (decision.Record, error) {
	return in.dir.decodeEntry(id, c, e)
}

// OpenText opens a text that may be sealed; see package index for its place.
func (in *Inspection) OpenText(place, text string) (string, error) {
	return in.dir.sealer.OpenText(place, text)
}

// OpenListed opens the texts of a row in the lists of all runs: the first and the input.
func (in *Inspection) OpenListed(id workflow.RunID, token workflow.TokenID, first, input string) (string, string, error) {
	t, err := in.dir.openListed(id, token, listed{first, input})
	return t.first, t.input, err
}

// OpenRunFile opens a file of a run for reading, whatever its checksum. Close it.
func (in *Inspection) OpenRunFile(name string) (*sqlite.Conn, error) {
	f, err := in.dir.openRegular(name)
	if err != nil {
		return nil, err
	}
	return in.dir.loadRunFile(f, name)
}

// OpenRunFile opens the file of a run, wherever it is, for reading. Close it.
// The file is one of those below runs, or a copy: an engine only ever replaces it, so that
// it may be read while one runs. It fails with ErrCorrupt if it is not such a file, with
// ErrVersion if another version wrote it, and with ErrSealed if it is sealed and the codec, which may be nil, lacks the key.
// Damaged parts of a sealed file are zeros.
//
// It is for reading a file by itself: no directory is needed.
func OpenRunFile(path string, c Codec) (*sqlite.Conn, error) {
	sealer, err := seal.NewSealer(c)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // opening a pipe waits for its writer
		return nil, &CorruptError{File: path, What: "it is no regular file"}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	d := &Dir{path: filepath.Dir(path), sealer: sealer}
	return d.loadRunFile(f, filepath.Base(path))
}

// DecodeEntry decodes a record of a run, which may be sealed with a codec; file is the file
// of the run, or nil.
func DecodeEntry(c Codec, id workflow.RunID, file runfile.Source, e *runfile.Entry) (decision.Record, error) {
	sealer, err := seal.NewSealer(c)
	if err != nil {
		return decision.Record{}, err
	}
	return (&Dir{sealer: sealer}).decodeEntry(id, file, e)
}

// loadRunFile opens a file of a run as a database, which closes the file.
func (d *Dir) loadRunFile(f *os.File, name string) (*sqlite.Conn, error) {
	head, err := io.ReadAll(io.NewSectionReader(f, 0, sqlite.HeaderSize))
	if err == nil && seal.IsSealed(head) {
		return d.salvageRunFile(f, name)
	}
	if err == nil {
		err = d.checkHeader(head, name, runfile.ID, runfile.Version)
	}
	if err != nil {
		_ = f.Close() // it was only read
		return nil, err
	}
	c, err := sqlite.OpenReader(f, recoverPragmas)
	if err != nil {
		return nil, err
	}
	if wrong, _ := runfile.ForeignObject(c); wrong != "" { // whoever reads a schema that cannot be read learns of that
		return nil, errors.Join(&CorruptError{File: d.pathOf(name), What: wrong}, c.Close())
	}
	return c, nil
}
