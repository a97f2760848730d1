package rescue

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/seal"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// fileStart returns how the names of a run's files start.
func fileStart(id workflow.RunID) string {
	name, _, _ := strings.Cut(path.Base(index.FileName(id, 0, 1)), "-")
	return name
}

// listFiles finds the files of runs.
func (r *repairer) listFiles() error {
	r.files = map[string][]string{}
	err := fs.WalkDir(r.FS(), index.RunsDir, func(name string, e fs.DirEntry, err error) error {
		if start, _, ok := strings.Cut(path.Base(name), "-"); err == nil && ok && e.Type().IsRegular() && path.Ext(name) == ".db" {
			r.files[start] = append(r.files[start], name)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// runOfFile returns the run that a file says it is of.
func (r *repairer) runOfFile(file string) (id workflow.RunID, err error) {
	db, err := r.OpenRunFile(file)
	if err != nil {
		return "", err
	}
	id, _, _, err = runfile.ReadMeta(runfile.InDatabase(db))
	_ = db.Close() // it is in memory
	return id, err
}

// surveyFiles reads all files, to find definitions that are missing elsewhere, and files
// that have the name of another run's.
func (r *repairer) surveyFiles() {
	if r.surveyed {
		return
	}
	r.surveyed = true
	for _, start := range sortedKeys(r.files) {
		for _, file := range r.files[start] {
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
func (r *repairer) findGraph(hash string) *workflow.Graph {
	if r.graphs[hash] == nil {
		r.surveyFiles()
	}
	return r.graphs[hash]
}

// definitionIn returns the definition in a run's file, as the run began with it.
func (r *repairer) definitionIn(db *sqlite.Conn) (g *workflow.Graph, err error) {
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

// A recovered run is one of which the records are left, from the first on, as far as
// their chain of checksums holds.
type recovered struct {
	id      workflow.RunID
	entries []runfile.Entry
	records []decision.Record
	seq     int64
	sum     runfile.Checksum
	graphs  []*workflow.Graph // that it may have begun with, likeliest first
	broken  error             // why the next record cannot be taken, if there is one

	state    *state.State // after them; nil if nothing is left
	events   []decision.Event
	listings store.Listings
}

// addEntry takes the next record of a run, or returns why it cannot be the next.
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
	m.entries, m.records = append(m.entries, whole), append(m.records, rec)
	m.seq, m.sum = e.Seq, e.Sum
	return nil
}

// recoverFile reads the journal in a file, as far as its chain holds.
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
func (r *repairer) recoverLog(m *recovered, num int64) error {
	entries, err := r.Records(num, m.seq)
	for i := range entries {
		if err := r.addEntry(m, &entries[i], nil); err != nil {
			return err
		}
	}
	return err
}

// replayAll applies the records, drops all from the first one on that cannot be applied,
// and returns why not.
func (m *recovered) replayAll() (err error) {
	if len(m.graphs) == 0 && m.seq > 0 {
		return errors.New("its definition is lost")
	}
	for m.seq > 0 {
		n, broken := m.replayOnce()
		if broken == nil {
			return err
		}
		err = broken
		m.truncateTo(n)
	}
	return err
}

// replayOnce applies the records. It returns how many could be applied, and why the next
// could not.
func (m *recovered) replayOnce() (n int, err error) {
	m.state, m.events, m.listings = state.NewState(m.id, m.graphs[0]), nil, store.Listings{}
	for i := range m.records {
		if err := m.applyRecord(&m.records[i]); err != nil {
			m.state = nil
			return i, err
		}
	}
	return len(m.records), nil
}

func (m *recovered) applyRecord(r *decision.Record) error {
	err := runfile.ApplyRecord(m.state, r, func(es []decision.Event) { m.events = append(m.events, es...) })
	if err == nil {
		m.listings.AddRecord(m.state, r.At)
	}
	return err
}

// truncateTo keeps the first n records.
func (m *recovered) truncateTo(n int) {
	m.entries, m.records = m.entries[:n], m.records[:n]
	if m.seq, m.sum = int64(n), runfile.FirstSum(m.id); n > 0 {
		m.sum = m.entries[n-1].Sum
	}
}
