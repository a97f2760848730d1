package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/seal"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

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
func (in *Inspection) AddDefinition(g *workflow.Graph) { in.dir.AddDefinition(g) }

// Graph returns the compiled definition with a hash. It fails with ErrCorrupt.
func (in *Inspection) Graph(hash string) (*workflow.Graph, error) { return in.dir.Graph(hash) }

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
// ErrVersion if another version wrote it, and with ErrSealed if it is sealed.
func OpenRunFile(path string) (*sqlite.Conn, error) { return OpenSealedRunFile(path, nil) }

// OpenSealedRunFile is OpenRunFile for a file that may be sealed, which the codec opens. Damaged
// parts of it are zeros.
//
// It is for reading a file by itself: no directory is needed.
func OpenSealedRunFile(path string, c Codec) (*sqlite.Conn, error) {
	sealer, err := seal.NewSealer(c)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // to open a pipe waits for who writes to it
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
	return sqlite.OpenReader(f, recoverPragmas)
}
