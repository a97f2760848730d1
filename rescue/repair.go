package rescue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/late"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// Repair restores what is left in the engine directory at path, which no engine
// has open, into a new directory: into must not exist, or be an empty one, or it
// fails with store.ErrNotEmpty. Nothing is changed at path.
//
// For every run it takes the longest journal whose chain of checksums holds, out of the
// run's file and the log, and derives everything else from it: state, events, row and
// lists. If pawl.db cannot be read, or is not the last one, the files of runs tell which
// runs there are. A run whose records are lost in part, or may be, stands as it stood
// after the last record that is left, and is suspended with a cause that says so, unless
// it has ended: Resume lets it go on from there. Definitions, outcomes, sound blobs and
// the events that are not published yet are copied.
//
// In the report Damage counts what is lost, the Notes what could be made whole
// again; the other counts are of what was restored. It fails as Verify does, and
// then leaves nothing behind.
//
// The journals are trusted and nothing else, since each record's checksum covers the one before
// it: a record that was changed, lost or taken from another run breaks the chain at that place.
// State, events and lists are made from the records by the functions with which an engine makes
// them, so that what is restored is what an engine would have had after the last of them.
//
// Options.Codec opens the old directory, and seals everything in the new one with the key that it uses today.
// If it lacks a key that something was sealed with, damaged or not, Repair fails with store.ErrSealed. A value that does
// not open under a key that opens other values is damaged, and is treated so.
func Repair(ctx context.Context, path, into string, o Options) (*Report, error) {
	in, err := openInspection(ctx, path, o.Codec)
	if err != nil {
		return nil, fmt.Errorf("repair %s: %w", path, err)
	}
	// The new directory is complete or is not there: Rebuild fills it under another name, and
	// removes it if restoreInto fails.
	err = in.Rebuild(into, in.restoreInto)
	// Findings that were made while looking advise to repair. This is the repair: what it could
	// not save is lost, and the advice would lead in a circle.
	for i := range in.report.Findings {
		if f := &in.report.Findings[i]; f.Do == doRepair {
			f.Do = "what only it held is lost"
		}
	}
	if err := errors.Join(err, in.Close()); err != nil {
		return nil, fmt.Errorf("repair %s into %s: %w", path, into, &undoneError{err})
	}
	return &in.report, nil
}

// An undoneError is the error of a repair, which leaves nothing behind: also a commit whose outcome was unknown was not done.
type undoneError struct{ err error }

// Error leaves out that an outcome is unknown.
func (e *undoneError) Error() string {
	text := store.ErrUnknown.Error()
	return strings.NewReplacer(text+": ", "", "; "+text, "").Replace(e.err.Error())
}

// Is implements the interface of errors.Is.
func (e *undoneError) Is(target error) bool {
	return target != store.ErrUnknown && errors.Is(e.err, target)
}

// As implements the interface of errors.As.
func (e *undoneError) As(target any) bool { return errors.As(e.err, target) }

// A repairer restores one directory into another.
//
// Its maps are filled in the order of restoreAll, by one goroutine. Only fault is written by
// others: the flusher of the new directory reports there what became of the files.
type repairer struct {
	*inspection
	to       *store.Dir
	toPath   string
	files    map[string][]string         // of runs, by the start of their names
	graphs   map[string]*compiled.Graph  // by hash
	surveyed bool                        // surveyFiles has read every file; it does so at most once
	strays   map[workflow.RunID][]string // files that have the name of another run
	behind   bool                        // a file goes further than pawl.db, which is of an earlier time
	restored map[workflow.RunID]bool     // the runs that are committed in the new directory; a child looks for its parent here
	flushing sync.WaitGroup              // counts the flushes that are under way; restoreAll waits for them before it says anything about success

	mu    sync.Mutex // guards
	fault error      // of a flush
}

// restoreInto fills a new directory, which is at path.
//
// It is what Rebuild calls.
func (in *inspection) restoreInto(to *store.Dir, path string) error {
	r := &repairer{
		inspection: in, to: to, toPath: path, graphs: map[string]*compiled.Graph{},
		strays: map[workflow.RunID][]string{}, restored: map[workflow.RunID]bool{},
	}
	return r.restoreAll()
}

// restoreAll restores everything, in an order of needs: files before definitions, because a
// definition may be found in a run's file only; definitions before runs, which are replayed
// with them; runs before blobs, because which blobs are wanted is asked of the new directory.
func (r *repairer) restoreAll() error {
	if r.Changed != nil {
		r.addNote(index.File, "what is restored follows from journals, where that can be", "%v", r.Changed)
	}
	if err := r.listFiles(); err != nil {
		return err
	}
	if err := r.restoreDefinitions(); err != nil {
		return err
	}
	if err := r.restoreRuns(); err != nil {
		return err
	}
	// A run is committed when restoreRun returns; its file is written later, by the flusher. A
	// failure there means that the new directory is not whole.
	r.flushing.Wait()
	if r.fault != nil {
		return r.fault
	}
	if err := r.restoreOutcomes(); err != nil {
		return err
	}
	if err := r.restoreOutbox(); err != nil {
		return err
	}
	// Rows that journals tell are derived anew, so that a change of them costs nothing and is a
	// note.
	if r.HasIndex() {
		if wrong := r.damagedSecret(); wrong != nil {
			r.addNote(index.File, "there is a new one: tasks that are out are sent again under other keys", "%v", wrong)
		}
		r.changedRows(func(c *index.CheckedTable, wrong string) {
			if c.Derived {
				r.addNote(index.File, "it follows from the journals", "%s", wrong)
			}
		})
	}
	if err := index.CopyMark(r.FS(), r.toPath); err != nil {
		return err
	}
	// Keys that are missing come last: by now everything was tried to be opened.
	if err := r.restoreBlobs(); err != nil {
		return err
	}
	return cmp.Or(late.Cause(r.ctx), r.checkSealed())
}

// checkSealed fails if a key was missing: nothing of what it opens is lost, so it must not
// be left out.
//
// One missing key is enough, and the first in order of their names is named, so that the
// message is the same each time.
func (r *repairer) checkSealed() error {
	missing := r.Sealed.Missing()
	for _, id := range slices.Sorted(maps.Keys(missing)) {
		return missing[id]
	}
	r.addSealed()
	return nil
}

// restoreDefinitions copies the definitions, and under which names they are
// published.
func (r *repairer) restoreDefinitions() error {
	if !r.HasIndex() {
		r.addWrong("", index.File, "publish them again, apply the schedules from their file, and look after effects under business keys before they are repeated",
			"the published definitions, the schedules and the kept outcomes are lost")
		return nil
	}
	// They are collected and stored together, since the old index is read in one go.
	docs := map[string]string{}
	r.eachIndexRow(allDefinitions, func(x *sqlite.Row) error {
		// A definition is known by its hash: one whose text does not have that hash is damaged,
		// and is looked for in the files of runs when a run needs it.
		doc, err := r.OpenText(index.DefinitionPlace(x.Text(0)), x.Text(1))
		var g *compiled.Graph
		if err == nil {
			g, err = runfile.CompileDefinition(doc, x.Text(0))
		}
		if err != nil {
			r.addNote(index.File, "files of its runs may have it", "definition %s is damaged: %v", x.Text(0), err)
		} else {
			r.graphs[g.Hash] = g
			docs[g.Hash] = doc
		}
		return nil
	})
	if err := r.to.StoreDefinitions(docs); err != nil {
		return err
	}
	return r.restorePublished()
}

// restorePublished publishes what was published, under the same name and version. The text of a
// row may have changed, so that it must agree with what the definition says of itself.
func (r *repairer) restorePublished() error {
	type published struct {
		name    string
		version int64
		hash    string
	}
	var rows []published
	r.eachIndexRow(allPublished, func(x *sqlite.Row) error {
		rows = append(rows, published{x.Text(0), x.Int64(1), x.Text(2)})
		return nil
	})
	// The rows are read before anything is looked for: findGraph may read files, which is not
	// done within a query.
	for _, p := range rows {
		g := r.findGraph(p.hash)
		if g == nil || g.Definition.Name != p.name || int64(runfile.VersionOf(g)) != p.version {
			r.addWrong("", index.File, "publish it again", "the definition published as %s version %d is lost", p.name, p.version)
		} else if err := r.to.Publish(g); err != nil {
			return err
		}
	}
	return nil
}

const outcomesAt = `SELECT key, value, at, crc FROM outcomes ORDER BY id`

// restoreOutcomes copies what Once has kept. An outcome that is lost is damage even though the
// engine would run without it: the effect it stands for might be repeated, which nobody but an
// operator can decide.
func (r *repairer) restoreOutcomes() error {
	if !r.HasIndex() {
		return nil
	}
	type outcome struct {
		key   string
		value any
		at    int64
	}
	var rows []outcome
	r.eachIndexRow(outcomesAt, func(x *sqlite.Row) error {
		var v any
		err := errors.New("its row has changed")
		// The checksum of the row comes first: a value that decodes may still be that of
		// another key.
		if index.CRCMatches(x, 1, 3) {
			v, err = r.readOutcome(x)
		}
		// One whose references to blobs cannot be read is lost as well: nothing would keep
		// these blobs.
		if err == nil {
			_, err = blob.Refs(v)
		}
		if err != nil {
			todo := "find out whether its effect took place before it is repeated"
			if strings.HasPrefix(x.Text(0), store.ScheduleKeys) {
				todo = doApply
			}
			r.addWrong("", index.File, todo, "the outcome kept under %q is lost: %v", x.Text(0), err)
		} else {
			rows = append(rows, outcome{x.Text(0), v, x.Int64(2)})
		}
		return nil
	})
	for _, o := range rows {
		if err := r.to.KeepOutcome(o.key, o.value, time.UnixMilli(o.at)); err != nil {
			return err
		}
	}
	return nil
}

// restoreBlobs copies all blobs that are sound, and names those that are
// referred to and are not.
//
// Blobs are copied through the stores on both sides: each is read and hashed on the way, and
// sealed with today's key if there is a codec. An engine may keep its blobs elsewhere, in which
// case there is no folder here, and that is a note.
func (r *repairer) restoreBlobs() error {
	wanted, err := r.to.References()
	if err != nil {
		return err
	}
	if _, err := fs.Lstat(r.FS(), index.BlobsDir); err != nil {
		if len(wanted) > 0 {
			r.addNote(index.BlobsDir, "check them there if the engine keeps its blobs elsewhere", "there is no such folder, and %s are referred to", countText(int64(len(wanted)), "blob"))
		}
		return nil
	}
	from, err := blob.OpenFiles(filepath.Join(r.path, index.BlobsDir), blob.Options{Codec: r.codec, ReadOnly: true})
	if err != nil {
		r.addDamage("", index.BlobsDir, err, doBlob)
		return nil
	}
	to, err := blob.OpenFiles(filepath.Join(r.toPath, index.BlobsDir), blob.Options{Codec: r.codec})
	if err == nil {
		err = r.copyBlobs(from, to, wanted)
		err = errors.Join(err, to.Close())
	}
	_ = from.Close() // it was only read
	return err
}

// copyBlobs copies all that can be read, wanted or not, and takes each off the list of those
// that are wanted. Blobs that are still on it at the end were not in the folder at all.
func (r *repairer) copyBlobs(from, to *blob.Files, wanted map[string]workflow.RunID) error {
	for info, err := range from.All(r.ctx) {
		if err == nil {
			err = r.readBlob(from, info.Hash, func(content io.Reader) error { _, _, err := to.Put(r.ctx, content); return err })
		}
		// Only that a blob is missing or damaged is a finding. Any other error, such as a full
		// disk, ends the repair.
		var lost *blob.Error
		switch {
		case err == nil:
			r.report.Blobs++
		case errors.As(err, &lost) && (errors.Is(err, blob.ErrMissing) || errors.Is(err, blob.ErrDamaged)):
			id, refers := wanted[info.Hash]
			r.loseBlob(info.Hash, err, id, refers)
		default:
			return err
		}
		delete(wanted, info.Hash)
	}
	for hash, id := range wanted {
		r.loseBlob(hash, &blob.Error{Hash: hash, Err: blob.ErrMissing}, id, true)
	}
	return nil
}

// loseBlob names a blob that cannot be restored, and a run that refers to it, if one does.
func (r *repairer) loseBlob(hash string, err error, id workflow.RunID, refers bool) {
	if !refers {
		r.addNote(blobPath(hash), "nothing refers to it", "%v", err)
		return
	}
	r.addDamage(id, blobPath(hash), err, "put the same bytes again")
}

// restoreRuns restores all runs that are known of, parents before their children, in the order in which they came: lists of runs are
// sorted by it.
//
// The index is asked first, and then the folder of runs, because either may be damaged. If the index can be trusted a file that it does not
// know was left by a crash or a purge, and is no run; but if the file of a run goes further than the index, that is of an earlier time.
func (r *repairer) restoreRuns() error {
	var ids []workflow.RunID
	known := map[workflow.RunID]bool{}
	if r.HasIndex() {
		ids = r.runIDs()
	}
	for _, id := range ids {
		known[id] = true
	}
	tried := map[workflow.RunID]bool{}
	restore := func(ids []workflow.RunID) error {
		for _, id := range parentsFirst(ids, known) {
			if tried[id] {
				continue
			}
			tried[id] = true
			if err := late.Cause(r.ctx); err != nil {
				return err
			}
			if err := r.restoreRun(id); err != nil {
				return err
			}
		}
		return nil
	}
	if !r.Trusted {
		return restore(append(ids, r.lostRuns(known)...))
	}
	if err := restore(ids); err != nil {
		return err
	}
	if r.behind {
		return restore(r.lostRuns(known))
	}
	for _, files := range r.unknownFiles(known) {
		for _, file := range files {
			r.addNote(file, "it was left behind, and is left out", "the index does not know it")
		}
	}
	return nil
}

// unknownFiles returns the files of no run that is known, by the start of their names, in their order. A file belongs to a run by that,
// so that one of a known run needs no look inside.
func (r *repairer) unknownFiles(known map[workflow.RunID]bool) (out [][]string) {
	claimed := map[string]bool{}
	for id := range known {
		claimed[fileStart(id)] = true
	}
	for _, start := range sortedKeys(r.files) {
		if !claimed[start] {
			out = append(out, r.files[start])
		}
	}
	return out
}

// lostRuns returns the runs that only files tell of, in the order in which they began, and adds them to those that are known.
func (r *repairer) lostRuns(known map[workflow.RunID]bool) (lost []workflow.RunID) {
	begun := map[workflow.RunID]time.Time{}
	for _, files := range r.unknownFiles(known) {
		for _, file := range files {
			if r.ctx.Err() != nil {
				return nil // restoreAll says so
			}
			id, at, err := r.runOfFile(file)
			if err != nil {
				r.addDamage("", file, err, "the run that it is of cannot be told, and is lost")
				continue
			}
			if !at.IsZero() {
				begun[id] = at
			}
			if !known[id] {
				known[id] = true
				lost = append(lost, id)
			}
		}
	}
	slices.SortStableFunc(lost, func(a, b workflow.RunID) int { return begun[a].Compare(begun[b]) })
	return lost
}

// parentsFirst moves runs before their children, so that commitRun can tell a child whose parent is lost, and keeps the order otherwise:
// a clock that was set back may have let a child start before its parent.
func parentsFirst(ids []workflow.RunID, known map[workflow.RunID]bool) (out []workflow.RunID) {
	placed := map[workflow.RunID]bool{}
	var place func(workflow.RunID)
	place = func(id workflow.RunID) {
		if placed[id] || !known[id] {
			return
		}
		placed[id] = true
		if i := strings.LastIndexByte(string(id), '/'); i > 0 {
			place(id[:i])
		}
		out = append(out, id)
	}
	for _, id := range ids {
		place(id)
	}
	return out
}
