package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// fileStart returns how the names of a run's files start.
func fileStart(id workflow.RunID) string {
	name, _, _ := strings.Cut(path.Base(fileName(id, 0, 1)), "-")
	return name
}

// listFiles finds the files of runs.
func (r *repairer) listFiles() error {
	r.files = map[string][]string{}
	err := fs.WalkDir(r.root.FS(), runsDir, func(name string, e fs.DirEntry, err error) error {
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

// whose returns the run that a file says it is of.
func (r *repairer) whose(file string) (id workflow.RunID, err error) {
	db, err := r.openFile(file)
	if err != nil {
		return "", err
	}
	id, err = saysRun(db)
	_ = db.Close() // it is in memory
	return id, err
}

func saysRun(db *sqlite.Conn) (id workflow.RunID, err error) {
	found, err := db.One(getMeta, func(x *sqlite.Row) error { id = workflow.RunID(x.Text(0)); return nil })
	if err == nil && !found {
		err = errors.New("it does not say of which run it is")
	}
	return id, err
}

// survey looks into all files for what is missing elsewhere: definitions, and
// files that have the name of another run's.
func (r *repairer) survey() {
	if r.surveyed {
		return
	}
	r.surveyed = true
	for _, start := range sortedKeys(r.files) {
		for _, file := range r.files[start] {
			db, err := r.openFile(file)
			if err != nil {
				continue // whoever needs it hears of it
			}
			if id, err := saysRun(db); err == nil && fileStart(id) != start {
				r.strays[id] = append(r.strays[id], file)
			}
			_, _ = r.definitionIn(db)
			_ = db.Close() // it is in memory
		}
	}
}

// graph returns a compiled definition, wherever it is found; nil if nowhere.
func (r *repairer) graph(hash string) *workflow.Graph {
	if r.graphs[hash] == nil {
		r.survey()
	}
	return r.graphs[hash]
}

const firstRevision = `SELECT hash, doc FROM definition WHERE revision = 1`

// definitionIn returns the definition in a run's file, as the run began with it.
func (r *repairer) definitionIn(db *sqlite.Conn) (g *workflow.Graph, err error) {
	err = db.Each(firstRevision, func(x *sqlite.Row) (err error) {
		hash := x.Text(0)
		if g = r.graphs[hash]; g != nil {
			return nil
		}
		if g, err = compile(x.Text(1), hash); err == nil {
			r.graphs[hash] = g
		}
		return err
	})
	return g, err
}

// salvagePragmas have SQLite read what it can of a file that is cut short, which it
// does only for those who may write to the schema.
const salvagePragmas = `PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA writable_schema=ON;`

// openFile reads a file of a run, whatever its checksum, as a database in memory.
func (r *repairer) openFile(file string) (*sqlite.Conn, error) {
	f, err := r.openRegular(file)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	_ = f.Close() // it was only read
	if err == nil {
		err = r.checkHeader(data[:min(len(data), sqlite.HeaderSize)], file, fileID, fileVersion)
	}
	if err != nil {
		return nil, err
	}
	db, err := sqlite.Open(sqlite.Memory, salvagePragmas)
	if err != nil {
		return nil, err
	}
	if err := db.Deserialize(data); err != nil {
		_ = db.Close() // it is in memory
		return nil, err
	}
	return db, nil
}

// A remnant is what is left of a run: the records from the first on whose chain
// holds.
type remnant struct {
	id      workflow.RunID
	entries []entry
	records []decision.Record
	seq     int64
	sum     checksum
	graphs  []*workflow.Graph // that it may have begun with, likeliest first
	broken  error             // why it does not go on, if something is there

	state    *workflow.State // after them; nil if nothing is left
	events   []decision.Event
	listings map[workflow.TokenID]Listing
}

// add takes the record that comes next, or says why it cannot be.
func (m *remnant) add(e *entry, s *snapshot) error {
	if err := e.follows(m.seq, m.sum); err != nil {
		return err
	}
	rec, err := e.Decode(s.lookup(e))
	if err != nil {
		return err
	}
	again, err := rec.Encode()
	if err != nil {
		return err
	}
	whole := *e
	whole.Values = again.Values // the file has them apart
	m.entries, m.records = append(m.entries, whole), append(m.records, rec)
	m.seq, m.sum = e.Seq, e.sum
	return nil
}

// salvage reads the journal of a file, as far as its chain holds.
func (r *repairer) salvage(id workflow.RunID, file string) (*remnant, error) {
	db, err := r.openFile(file)
	if err != nil {
		return nil, err
	}
	m := &remnant{id: id, sum: firstSum(id)}
	s := &snapshot{file: db}
	defer s.close()
	for e, err := range s.filedEntries() {
		if err == nil {
			err = m.add(&e, s)
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

// salvageLog goes on with the records of the log, as far as the chain holds.
func (r *repairer) salvageLog(m *remnant, num int64) error {
	var entries []entry
	var damage error
	err := r.read(func(db *sqlite.Conn) (err error) {
		entries, damage, err = readLog(db, num, m.seq)
		return err
	})
	entries, damage, broken := r.unpack(entries, damage) // as far as they could be read
	err = errors.Join(err, broken)
	if damage != nil {
		entries = entries[:len(entries)-1]
	}
	for i := range entries {
		if err := m.add(&entries[i], &snapshot{}); err != nil {
			return err
		}
	}
	return errors.Join(err, damage)
}

// retell folds the records, and drops those from the first on that do not fit,
// of which it says why.
func (m *remnant) retell() (err error) {
	if len(m.graphs) == 0 && m.seq > 0 {
		return errors.New("its definition is lost")
	}
	for m.seq > 0 {
		n, broken := m.tell()
		if broken == nil {
			return err
		}
		err = broken
		m.cut(n)
	}
	return err
}

// tell folds the records and returns how many fit, and why the next does not.
func (m *remnant) tell() (n int, err error) {
	m.state, m.events, m.listings = workflow.NewState(m.id, m.graphs[0]), nil, map[workflow.TokenID]Listing{}
	for i := range m.records {
		if err := m.fold(&m.records[i]); err != nil {
			m.state = nil
			return i, err
		}
	}
	return len(m.records), nil
}

func (m *remnant) fold(r *decision.Record) error {
	err := fold(m.state, r, func(es []decision.Event) { m.events = append(m.events, es...) })
	if err == nil {
		list(m.listings, Listings(m.state, r.At))
	}
	return err
}

// list keeps the last word on each token.
func list(listed map[workflow.TokenID]Listing, ls []Listing) {
	for _, l := range ls {
		if l.Token == 0 {
			clear(listed)
		}
		listed[l.Token] = l
	}
}

// cut keeps n records.
func (m *remnant) cut(n int) {
	m.entries, m.records = m.entries[:n], m.records[:n]
	if m.seq, m.sum = int64(n), firstSum(m.id); n > 0 {
		m.sum = m.entries[n-1].sum
	}
}
