package replay

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// A Recording is a run as its journal tells it.
type Recording struct {
	Run    workflow.RunID
	Source string // the file, or the directory, that it was read from

	graph    *workflow.Graph // of the definition that it began with
	history  decision.History
	redacted bool   // it has the shapes of values, not the values
	export   string // the file of exported runs that it is in, "" if it comes from elsewhere
	free     func()
}

// New returns the recording of a run that began with a compiled definition. history may be
// read any number of times.
func New(run workflow.RunID, g *workflow.Graph, history decision.History) *Recording {
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
func (r *Recording) Graph() *workflow.Graph {
	if r == nil {
		return nil
	}
	return r.graph
}

// Until returns the recording as it was after one of its records: those that follow are left out. Close the one that it comes from.
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

// eachRecord yields the records of the run, to be planned again. Each error names the run; one says that there
// is none.
func (r *Recording) eachRecord() decision.History {
	if r.Redacted() {
		return func(yield func(decision.Record, error) bool) { yield(decision.Record{}, r.withSource(ErrRedacted)) }
	}
	return r.eachRedacted()
}

// eachRedacted is eachRecord for those who do without values, and plan nothing again.
func (r *Recording) eachRedacted() decision.History {
	return func(yield func(decision.Record, error) bool) {
		if r == nil || r.graph == nil || r.history == nil {
			yield(decision.Record{}, errEmpty)
			return
		}
		none := true
		for rec, err := range r.history {
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
func (r *Recording) explainPanic(err *error) {
	if p := recover(); p != nil {
		*err = r.withSource(fmt.Errorf("%w: its records do not fit each other: %v", store.ErrCorrupt, p))
	}
}

// Open reads the file of a run: one of those below runs in an engine directory, or a copy
// of one. It may be read while an engine runs, and then lacks what is not yet filed. Close the recording.
// Errors: store.ErrCorrupt for what is not the file of a run, store.ErrVersion for one of
// another format, fs.ErrNotExist.
func Open(path string) (*Recording, error) { return OpenSealed(path, nil) }

// OpenSealed is Open for a file that may be sealed, which the codec opens. It fails with
// store.ErrSealed if that lacks the key.
func OpenSealed(path string, c store.Codec) (*Recording, error) { return newLibrary(c).openFile(path) }

// A library remembers compiled definitions by their hash.
type library struct {
	graphs map[string]*workflow.Graph
	codec  store.Codec // of what is sealed; may be nil
}

func newLibrary(c store.Codec) library { return library{map[string]*workflow.Graph{}, c} }

func (l library) openFile(path string) (*Recording, error) {
	if isExport(path) {
		return l.openExported(path, "")
	}
	db, err := store.OpenSealedRunFile(path, l.codec)
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
func (l library) graphOf(doc, hash string) (*workflow.Graph, error) {
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

// All yields the recordings below some paths, each of which is the file of a run, a file of exported
// runs, an engine directory that no engine has open, DIR:RUN for one run of such a directory or file, or another folder,
// in which every file that ends in .db is one of a run, and every one that ends in .pawl has exported runs. A recording is open until the next one is asked for. What cannot be
// read comes as an error, behind which it goes on with what is left.
func All(paths ...string) iter.Seq2[*Recording, error] { return AllSealed(nil, paths...) }

// AllSealed is All for recordings that may be sealed, which the codec opens.
func AllSealed(c store.Codec, paths ...string) iter.Seq2[*Recording, error] {
	return func(yield func(*Recording, error) bool) {
		l := newLibrary(c)
		for _, path := range paths {
			if !l.eachBelow(path, yield) {
				return
			}
		}
	}
}

// eachBelow yields the recordings below a path, and reports whether more are wanted.
func (l library) eachBelow(path string, yield func(*Recording, error) bool) bool {
	if _, _, ok := SplitName(path); ok {
		r, err := FindSealed(path, l.codec)
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

func isEngineDirectory(path string) bool {
	_, err := os.Lstat(filepath.Join(path, "pawl.db"))
	return err == nil
}

// eachInDirectory yields the runs of an engine directory, with the records that are not yet
// in their files, and reports whether more are wanted.
func (l library) eachInDirectory(path string, yield func(*Recording, error) bool) (more bool) {
	in, err := store.InspectSealed(path, l.codec)
	if err != nil {
		return yield(nil, fmt.Errorf("%s: %w", path, err))
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

// Find returns the recording that a name stands for: the path of a run's file, or of a file of
// exported runs, of which it is the first, or DIR:RUN for a run of such a file or of an engine directory that no engine has open. Close it. It fails as Open does, and
// with store.ErrRunNotFound.
func Find(name string) (*Recording, error) { return FindSealed(name, nil) }

// FindSealed is Find for what may be sealed, which the codec opens.
func FindSealed(name string, c store.Codec) (*Recording, error) {
	dir, run, ok := SplitName(name)
	if !ok {
		return OpenSealed(name, c)
	}
	if isExport(dir) {
		return newLibrary(c).openExported(dir, run)
	}
	in, err := store.InspectSealed(dir, c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	rec, err := openRun(in, run)
	if err != nil {
		_ = in.Close() // it was only read
		return nil, err
	}
	free := rec.free
	rec.free = func() { free(); _ = in.Close() }
	return rec, nil
}

// SplitName splits a name, as [Find] takes it, at the first colon behind an engine directory, or a file of exported runs; ok is
// false if there is none.
func SplitName(name string) (dir string, run workflow.RunID, ok bool) {
	for i := range len(name) {
		if name[i] != ':' {
			continue
		}
		if isEngineDirectory(name[:i]) || isExport(name[:i]) {
			return name[:i], workflow.RunID(name[i+1:]), true
		}
	}
	return "", "", false
}
