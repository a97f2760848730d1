package rescue

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/seal"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// sortedKeys is for maps whose order would otherwise reach the report.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// fileStart returns how the names of a run's files start.
//
// A name has the hash of the id, a dash, and what tells one file of the run from another.
func fileStart(id workflow.RunID) string {
	name, _, _ := strings.Cut(path.Base(index.FileName(id, 0, 1)), "-")
	return name
}

// listFiles finds the files of runs.
//
// They are sorted into the starts of their names, which is how a run finds those that may be
// its own; that a file is what its name says is not checked here. A folder that is missing is
// that of a directory without flushed runs.
func (r *repairer) listFiles() error {
	r.files = map[string][]string{}
	err := fs.WalkDir(r.FS(), index.RunsDir, func(name string, e fs.DirEntry, err error) error {
		if err == nil && isRunFile(name, e) {
			start, _, _ := strings.Cut(path.Base(name), "-")
			r.files[start] = append(r.files[start], name)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// isRunFile reports whether a file has a name as those of runs have, with a start and an end.
func isRunFile(name string, e fs.DirEntry) bool {
	return e.Type().IsRegular() && path.Ext(name) == ".db" && strings.Contains(path.Base(name), "-")
}

// runOfFile returns the run that a file says it is of, and when its first record was made.
//
// It is asked only for files that the index does not claim. The file may be damaged in other
// places and still say whose it is.
func (r *repairer) runOfFile(file string) (id workflow.RunID, begun time.Time, err error) {
	db, err := r.OpenRunFile(file)
	if err != nil {
		return "", begun, err
	}
	content := runfile.InDatabase(db)
	id, _, _, err = runfile.ReadMeta(content)
	for e, failed := range runfile.ReadJournal(content) {
		if failed == nil {
			begun = e.At
		}
		break
	}
	_ = db.Close() // it is in memory
	return id, begun, err
}

// surveyFiles reads all files, to find definitions that are missing elsewhere, and files
// that have the name of another run's.
//
// It reads the whole folder, and is therefore put off until something is missing: a definition
// that the index lacks, or records of a run whose own files do not have them. A file under a
// wrong name happens when names were mixed up by a restore from elsewhere.
func (r *repairer) surveyFiles() {
	if r.surveyed {
		return
	}
	r.surveyed = true
	for _, start := range sortedKeys(r.files) {
		for _, file := range r.files[start] {
			if r.ctx.Err() != nil {
				return // restoreAll says so
			}
			db, err := r.OpenRunFile(file)
			if err != nil {
				continue // whoever needs it hears of it
			}
			if id, _, _, err := runfile.ReadMeta(runfile.InDatabase(db)); err == nil && fileStart(id) != start {
				r.strays[id] = append(r.strays[id], file)
			}
			_, _ = r.definitionIn(db)
			_ = db.Close() // it is in memory
		}
	}
}

// findGraph returns a compiled definition, wherever it is found; nil if nowhere.
//
// The index was read before; only if it lacks the definition are the files surveyed.
func (r *repairer) findGraph(hash string) *compiled.Graph {
	if r.graphs[hash] == nil {
		r.surveyFiles()
	}
	return r.graphs[hash]
}

// definitionIn returns the definition in a run's file, as the run began with it.
//
// A run that was patched has several; the first is the one with which the replay begins, as the
// patches themselves are records. It is remembered for other runs of the same definition. The
// hash proves the text.
func (r *repairer) definitionIn(db *sqlite.Conn) (g *compiled.Graph, err error) {
	hash, doc, err := runfile.ReadFirstDefinition(runfile.InDatabase(db))
	if err != nil || hash == "" {
		return nil, err
	}
	if known := r.graphs[hash]; known != nil {
		return known, nil
	}
	if g, err = runfile.CompileDefinition(doc, hash); err == nil {
		r.graphs[hash] = g
	}
	return g, err
}

// A recovered run has the records that are left of a run, from the first on, as far as their
// chain of checksums holds.
//
// entries, records, seq and sum belong together: addEntry adds to all four, truncateTo takes
// from all four. state, events and listings are those after the last record, and are made by
// replayOnce.
type recovered struct {
	id      workflow.RunID
	entries []*runfile.Entry  // as they stood in the file or the log, with their large values in them
	records []decision.Record // the same records, decoded
	seq     int64             // of the last record, which is also their number; 0 without records
	sum     runfile.Checksum  // of the chain up to there, which the next record must continue
	graphs  []*compiled.Graph // that it may have begun with, likeliest first
	broken  error             // why the next record cannot be taken, if there is one

	state    *state.State     // after them; nil if nothing is left
	events   []decision.Event // of all records, for the new file
	listings store.Listings   // how they change the lists of all runs
}

// addEntry takes the next record of a run, or returns why it cannot be the next.
//
// The checksum is proved before the record is decoded, and the record is encoded again to have
// its large values with it: the file keeps them in a table of their own. A sealed record stays
// closed in its entry, with whatever came with it.
func (r *repairer) addEntry(m *recovered, e *runfile.Entry, file runfile.Source) error {
	if err := e.CheckFollows(m.seq, m.sum); err != nil {
		return err
	}
	rec, err := r.DecodeEntry(m.id, file, e)
	if err != nil {
		return err
	}
	again, err := rec.Encode()
	if err != nil {
		return err
	}
	whole := *e
	if !seal.IsSealed(e.Message) {
		whole.Values = again.Values // the file has them apart
	}
	m.entries, m.records = append(m.entries, &whole), append(m.records, rec)
	m.seq, m.sum = e.Seq, e.Sum
	return nil
}

// recoverFile reads the journal in a file, as far as its chain holds.
//
// An error says that the file could not be opened at all. A file that breaks off in the middle
// gives the records up to there, with the cause in broken: they are as good as those of a sound
// file.
func (r *repairer) recoverFile(id workflow.RunID, file string) (*recovered, error) {
	db, err := r.OpenRunFile(file)
	if err != nil {
		return nil, err
	}
	m := &recovered{id: id, sum: runfile.FirstSum(id)}
	defer func() { _ = db.Close() }() // it is in memory
	content := runfile.InDatabase(db)
	for e, err := range runfile.ReadJournal(content) {
		if err == nil {
			err = r.addEntry(m, &e, content)
		}
		if err != nil {
			m.broken = err
			break
		}
	}
	g, err := r.definitionIn(db)
	if g != nil {
		m.graphs = append(m.graphs, g)
	}
	if m.broken == nil && err != nil {
		m.broken = fmt.Errorf("its definition: %w", err)
	}
	return m, nil
}

// recoverLog adds the records of the log, as far as the chain holds.
//
// The log has the records that were not flushed when the engine stopped, so that they come
// behind those of the file. Records that the file has already are not asked for. The error says
// why the chain ends before the log does.
func (r *repairer) recoverLog(m *recovered, num int64) error {
	entries, err := r.Records(num, m.seq)
	for _, e := range entries {
		if err := r.addEntry(m, e, nil); err != nil {
			return err
		}
	}
	return err
}

// replayAll applies the records with the definition with which they go furthest, drops all from the first one on that cannot
// be applied, and returns why not.
//
// A chain may hold and the records not be applicable, for example if they were made by a
// definition that is lost: then the state before the first such record is the last that is
// certain. Since a replay changes the state as it goes, it begins anew after each cut; each
// round drops at least one record, so that this ends.
func (m *recovered) replayAll() (err error) {
	if len(m.graphs) == 0 && m.seq > 0 {
		return errors.New("its definition is lost")
	}
	for m.seq > 0 {
		furthest, why := -1, error(nil)
		for i, g := range m.graphs {
			n, broken := m.replayOnce(g)
			if broken == nil {
				m.graphs = m.graphs[i:]
				return err
			}
			if n > furthest {
				furthest, why = n, broken
			}
		}
		err = why
		m.truncateTo(furthest)
	}
	return err
}

// replayOnce applies the records to a run that began with a definition. It returns how many could be applied, and why the next
// could not.
//
// The state is nil if any failed, so that nobody takes one that was left in the middle of a
// record.
func (m *recovered) replayOnce(g *compiled.Graph) (n int, err error) {
	m.state, m.events, m.listings = state.NewState(m.id, g), nil, store.Listings{}
	for i := range m.records {
		if err := m.applyRecord(&m.records[i]); err != nil {
			m.state = nil
			return i, err
		}
	}
	return len(m.records), nil
}

// applyRecord applies one record, and has the lists follow it, as the appliers of the engine
// do. They cannot, if the definition lacks the node of a token.
func (m *recovered) applyRecord(r *decision.Record) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("record %d: %v", r.Seq, p)
		}
	}()
	err = runfile.ApplyRecord(m.state, r, func(es []decision.Event) { m.events = append(m.events, es...) })
	if err == nil {
		m.listings.AddRecord(m.state, r.At)
	}
	return err
}

// truncateTo keeps the first n records.
//
// The sum is that of the last record which is kept, or of the empty chain: what is added next,
// as the suspension is, must continue from there.
func (m *recovered) truncateTo(n int) {
	m.entries, m.records = m.entries[:n], m.records[:n]
	if m.seq, m.sum = int64(n), runfile.FirstSum(m.id); n > 0 {
		m.sum = m.entries[n-1].Sum
	}
}
