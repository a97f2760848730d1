package replay

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// A Recording is a run as its journal tells it.
// graph is nil only in a zero Recording, and history too; eachRecord turns that into an error. free
// gives back what the source holds, such as a database in memory; nil if there is nothing, also in
// what Until returns. A Recording does not change, but for r.export and Source, which are set before
// it is handed out.
type Recording struct {
	Run    workflow.RunID
	Source string // the file, or the directory, that it was read from

	graph    *compiled.Graph // of the definition that it began with
	history  decision.History
	redacted bool   // it has the shapes of values, not the values
	export   string // the file of exported runs that it is in, "" if it comes from elsewhere
	free     func()
}

// New returns the recording of a run that began with a compiled definition. history may be
// read any number of times.
func New(run workflow.RunID, g *compiled.Graph, history decision.History) *Recording {
	return &Recording{Run: run, graph: g, history: history}
}

// Definition returns the definition that the run began with. Do not modify it.
func (r *Recording) Definition() *workflow.Definition {
	if r == nil || r.graph == nil {
		return &workflow.Definition{}
	}
	return r.graph.Definition
}

// Graph returns the definition that the run began with, compiled; nil of a Recording that nobody has made. Do not modify it.
func (r *Recording) Graph() *compiled.Graph {
	if r == nil {
		return nil
	}
	return r.graph
}

// Until returns the recording as it was after one of its records: those that follow are left out. Close the one that it comes from.
//
// It holds the same open source, so it must not be used once that is closed. A record beyond the last
// leaves all of them; one before the first leaves none, which eachRecord reports as an error.
func (r *Recording) Until(record int64) *Recording {
	if r == nil || r.history == nil {
		return r
	}
	then := *r
	then.free = nil
	then.history = func(yield func(decision.Record, error) bool) {
		for rec, err := range r.history {
			if err == nil && rec.Seq > record || !yield(rec, err) {
				return
			}
		}
	}
	return &then
}

// Redacted reports whether the recording lacks the values of the run; see [Redact].
func (r *Recording) Redacted() bool { return r != nil && r.redacted }

// Close frees the memory that the recording takes.
func (r *Recording) Close() {
	if r != nil && r.free != nil {
		r.free()
	}
}

// Records yields the records of the run, from the first on; see [Recording.Redacted]. An error ends the list.
func (r *Recording) Records() decision.History { return r.eachRedacted() }

// eachRecord yields the records of the run, to be planned again. Each error names the run, also the error that says
// that it has no records.
//
// A redacted run is refused here: conditions that read 0 and "xxx" in place of values would decide
// otherwise, and every run would seem to differ.
func (r *Recording) eachRecord() decision.History {
	if r.Redacted() {
		return func(yield func(decision.Record, error) bool) { yield(decision.Record{}, r.withSource(ErrRedacted)) }
	}
	return r.eachRedacted()
}

// eachRedacted is eachRecord for those who do without values, and plan nothing again.
//
// A record of a newer planner is refused, too: this program may not know its decisions, and a
// difference would say nothing. Older ones are accepted; to find out where they differ is what Check
// is for.
func (r *Recording) eachRedacted() decision.History {
	return func(yield func(decision.Record, error) bool) {
		if r == nil || r.graph == nil || r.history == nil {
			yield(decision.Record{}, errEmpty)
			return
		}
		none := true
		for rec, err := range r.history {
			// This is looked at for each record: a run may have been continued by a newer engine.
			if err == nil && rec.Planner > planning.Version {
				err = fmt.Errorf("%w: record %d was made by version %d of the planner; this is %d: use a newer pawl", store.ErrVersion, rec.Seq, rec.Planner, planning.Version)
			}
			if err != nil {
				yield(decision.Record{}, r.withSource(err))
				return
			}
			none = false
			if !yield(rec, nil) {
				return
			}
		}
		if none {
			yield(decision.Record{}, r.withSource(errEmpty))
		}
	}
}

// withSource adds to an error which run it is about, and where that is recorded.
func (r *Recording) withSource(err error) error {
	if r.Source == "" {
		return fmt.Errorf("run %q: %w", string(r.Run), err)
	}
	return fmt.Errorf("run %q in %s: %w", string(r.Run), r.Source, err)
}

// explainPanic makes an error of a panic, when it is deferred: the records of a run that somebody else has written may say what
// no planner decides.
//
// ApplyRecord makes an error of a panic by itself; this is for whatever
// looks at the state around it, such as the group of a token
// that names one that there is not. Every exported function that does so defers it.
func (r *Recording) explainPanic(err *error) {
	if p := recover(); p != nil {
		*err = r.withSource(fmt.Errorf("%w: its records do not fit each other: %v", store.ErrCorrupt, p))
	}
}

// Options say how recordings are opened. The zero value is for those that are not sealed.
type Options struct {
	Codec store.Codec // opens what is sealed
}

// Open reads the file of a run: one of those below runs in an engine directory, or a copy
// of one. It may be read while an engine runs, and then lacks what is not yet filed. Close the recording.
// Errors: store.ErrCorrupt for what is not the file of a run, store.ErrVersion for one of
// another format, store.ErrSealed for one whose key Options.Codec lacks, fs.ErrNotExist.
func Open(path string, o Options) (*Recording, error) { return newLibrary(o).openFile(path) }

// A library remembers compiled definitions by their hash.
// Runs of one directory mostly share few definitions, and each is compiled once.
// It belongs to one goroutine, and lives for one call of All or Open.
type library struct {
	graphs map[string]*compiled.Graph
	codec  store.Codec // of what is sealed; may be nil
}

func newLibrary(o Options) library { return library{map[string]*compiled.Graph{}, o.Codec} }

// openFile reads the file of a run, or the first run of an export. The database is read into memory
// and is open until the recording is closed, since its history reads from it each time it is ranged
// over.
func (l library) openFile(path string) (*Recording, error) {
	if isExport(path) {
		return l.openExported(path, "")
	}
	db, err := store.OpenRunFile(path, l.codec)
	if err != nil {
		return nil, err
	}
	r, err := l.readFile(db)
	if err != nil {
		_ = db.Close() // it is in memory
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r.Source = path
	return r, nil
}

// readFile returns the recording of an open run file, which closes the database with it.
// CheckedJournal verifies the entries as they are read, so damage in the middle is found by whoever
// comes to that record.
func (l library) readFile(db *sqlite.Conn) (*Recording, error) {
	content := runfile.InDatabase(db)
	id, _, _, err := runfile.ReadMeta(content)
	if err != nil {
		return nil, err
	}
	hash, doc, err := runfile.ReadFirstDefinition(content)
	if err == nil && hash == "" {
		err = errors.New("it lacks the definition that the run began with")
	}
	if err != nil {
		return nil, err
	}
	g, err := l.graphOf(doc, hash)
	if err != nil {
		return nil, err
	}
	r := New(id, g, decodedRecords(runfile.CheckedJournal(content, id), func(e *runfile.Entry) (decision.Record, error) {
		return store.DecodeEntry(l.codec, id, content, e)
	}))
	r.free = func() { _ = db.Close() } // it is in memory
	return r, nil
}

// graphOf returns the compiled definition of a document with a hash.
//
// CompileDefinition compares the document with the hash, so that a definition that was changed beside
// its run is not taken for the one that made the records.
func (l library) graphOf(doc, hash string) (*compiled.Graph, error) {
	if l.graphs[hash] == nil {
		g, err := runfile.CompileDefinition(doc, hash)
		if err != nil {
			return nil, fmt.Errorf("its definition: %w", err)
		}
		l.graphs[hash] = g
	}
	return l.graphs[hash], nil
}

// decodedRecords yields the records that entries are of.
//
// It ends with the first error: sequences are without gaps, and records behind a damaged one do not
// fit the state.
func decodedRecords(entries iter.Seq2[runfile.Entry, error], decode func(*runfile.Entry) (decision.Record, error)) decision.History {
	return func(yield func(decision.Record, error) bool) {
		for e, err := range entries {
			var r decision.Record
			if err == nil {
				r, err = decode(&e)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// All yields the recordings below some paths. A path is the file of a run, a file of exported
// runs, an engine directory that no engine has open, DIR:RUN for one run of such a directory or file, or another folder,
// in which every file that ends in .db is one of a run, and every one that ends in .pawl has exported runs. A recording is open until the next one is asked for. A recording that cannot be
// read comes as an error, and All goes on with the others.
func All(o Options, paths ...string) iter.Seq2[*Recording, error] {
	return func(yield func(*Recording, error) bool) {
		l := newLibrary(o)
		for _, path := range paths {
			if !l.eachBelow(path, yield) {
				return
			}
		}
	}
}

// eachBelow yields the recordings below a path, and reports whether more are wanted.
//
// The order of the cases matters: DIR:RUN is no path to walk; an engine directory is read as one, with
// what its log has, and not walked, since its run files alone lack the records that were not flushed;
// a path that was named itself is opened whatever its ending is, while in a folder only the two known
// endings are.
func (l library) eachBelow(path string, yield func(*Recording, error) bool) bool {
	if _, _, ok := SplitName(path); ok {
		r, err := Find(path, Options{Codec: l.codec})
		more := yield(r, err)
		r.Close()
		return more
	}
	more := true
	_ = filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error { // all errors are yielded
		if err == nil && e.IsDir() && isEngineDirectory(name) {
			if more = l.eachInDirectory(name, yield); !more {
				return fs.SkipAll
			}
			return fs.SkipDir
		}
		if err == nil && (e.IsDir() || name != path && filepath.Ext(name) != ".db" && filepath.Ext(name) != exportExt) {
			return nil
		}
		if err == nil && name != path && isSecondName(name) {
			return nil
		}
		if err == nil && isExport(name) {
			if more = l.eachExported(name, yield); !more {
				return fs.SkipAll
			}
			return nil
		}
		var r *Recording
		if err == nil {
			r, err = l.openFile(name)
		}
		more = yield(r, err)
		if r != nil {
			r.Close()
		}
		if !more {
			return fs.SkipAll
		}
		return nil
	})
	return more
}

// isSecondName reports whether a file is the one of a run whose first name stands beside it: an engine gives the files of
// runs two names; the first ends with a.db, and stays. A copy of the directory has two files that are equal.
func isSecondName(name string) bool {
	stem, is := strings.CutSuffix(name, "b.db")
	if !is {
		return false
	}
	info, err := os.Stat(name)
	first, missing := os.Stat(stem + "a.db")
	if err != nil || missing != nil || info.Size() != first.Size() {
		return false
	}
	if os.SameFile(info, first) {
		return true
	}
	data, err := os.ReadFile(name)
	other, missing := os.ReadFile(stem + "a.db")
	return err == nil && missing == nil && bytes.Equal(data, other)
}

// isEngineDirectory reports whether a path is one: each has the file pawl.db. A link counts as well,
// wherever it leads.
func isEngineDirectory(path string) bool {
	_, err := os.Lstat(filepath.Join(path, "pawl.db"))
	return err == nil
}

// eachInDirectory yields the runs of an engine directory, with the records that are not yet
// in their files, and reports whether more are wanted.
//
// A run that cannot be read is yielded as an error and the next follows: one damaged file must not
// hide the others. That the directory cannot be read is a *fs.PathError, by which who reads a folder knows which one it
// is, and may ask the engine that has it open.
func (l library) eachInDirectory(path string, yield func(*Recording, error) bool) (more bool) {
	in, err := store.Inspect(path, l.codec)
	if err != nil {
		return yield(nil, &fs.PathError{Op: "read", Path: path, Err: err})
	}
	defer func() { _ = in.Close() }() // it was only read
	ids, err := in.RunIDs()
	if err != nil && !yield(nil, fmt.Errorf("%s: %w", path, err)) {
		return false
	}
	for _, id := range ids {
		r, err := openRun(in, id)
		more := yield(r, err)
		if r != nil {
			r.Close()
		}
		if !more {
			return false
		}
	}
	return true
}

// openRun returns the recording of a run of an engine directory.
//
// A snapshot has the records of the run's file and behind them those of the log that the file lacks.
// It is closed with the recording, and the Inspection by its owner.
func openRun(in *store.Inspection, id workflow.RunID) (*Recording, error) {
	snap, err := in.Snapshot(id)
	if err != nil {
		return nil, err
	}
	g, err := in.Graph(snap.Definition)
	if err != nil {
		snap.Close()
		return nil, err
	}
	r := New(id, g, decodedRecords(snap.Journal(), snap.DecodeEntry))
	r.Source, r.free = in.Path(), snap.Close
	return r, nil
}

// errEmpty says that nothing is recorded of a run.
var errEmpty = errors.New("it has no records")
