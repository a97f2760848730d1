package witness

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/taskkey"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// A Snapshot is what a process has left behind: every run, as a copy of the
// engine directory has it.
type Snapshot map[workflow.RunID]*Found

// A Found is one run of a snapshot.
type Found struct {
	Head    store.Head
	Records []decision.Record
	Events  []decision.Event
	Out     map[pawl.Key]int64 // keys that were ever sent, and in which record
	Pending map[pawl.Key]bool  // keys that are out
	Results map[pawl.Key]int64 // keys that have a result, and in which record
}

// Outcomes returns how the runs stand or have ended, by run.
func (snap Snapshot) Outcomes() map[string]string {
	out := map[string]string{}
	for id, f := range snap {
		out[string(id)] = OutcomeText(f.Head.Outcome())
	}
	return out
}

// Take copies the engine directory of a trial, which no process has open, and
// reads the copy. It checks what must be true of any directory at any time. With
// whole, all runs have ended and the engine was closed: everything must be in the
// files of the runs.
func Take(dir string, whole bool) (Snapshot, error) {
	return TakeFrom(filepath.Join(dir, "engine"), filepath.Join(dir, "copy"), nil, whole)
}

// TakeFrom is Take of the engine directory from, by a copy at to. The codec opens values that are
// sealed; nil if none are.
func TakeFrom(from, to string, c store.Codec, whole bool) (Snapshot, error) {
	if _, err := os.Lstat(from); errors.Is(err, os.ErrNotExist) {
		return Snapshot{}, nil
	}
	defer func() { _ = os.RemoveAll(to) }() // the whole workspace goes in the end
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return nil, err
	}
	d, err := store.Open(to, store.Options{Codec: c, Detach: true})
	if err != nil {
		return nil, fmt.Errorf("copy: %w", err)
	}
	snap, err := readSnapshot(d)
	if err := errors.Join(err, d.Close()); err != nil {
		return nil, fmt.Errorf("copy: %w", err)
	}
	if whole {
		err = snap.checkFiles(to, c == nil)
	}
	return snap, err
}

func readSnapshot(d *store.Dir) (Snapshot, error) {
	snap := Snapshot{}
	for h, err := range d.AllHeads(store.RunFilter{}) {
		if err != nil {
			return nil, err
		}
		f := &Found{Head: h, Out: map[pawl.Key]int64{}, Pending: map[pawl.Key]bool{}, Results: map[pawl.Key]int64{}}
		if err := f.readRun(d); err != nil {
			return nil, fmt.Errorf("run %q: %w", string(h.Run), err)
		}
		snap[h.Run] = f
	}
	return snap, nil
}

// readRun replays the journal of a run through the planner and finds the same
// decisions, events and state as are stored.
func (f *Found) readRun(d *store.Dir) error {
	g, err := d.Graph(f.Head.Definition)
	if err != nil {
		return err
	}
	s := state.NewState(f.Head.Run, g)
	var events []decision.Event
	for r, err := range d.History(f.Head.Run) {
		if err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		if r.Seq != int64(len(f.Records))+1 {
			return fmt.Errorf("record %d follows record %d", r.Seq, len(f.Records))
		}
		es, err := f.replayRecord(s, r)
		if err != nil {
			return fmt.Errorf("record %d: %w", r.Seq, err)
		}
		events = append(events, es...)
	}
	for e, err := range d.Events(f.Head.Run, 0) {
		if err != nil {
			return fmt.Errorf("events: %w", err)
		}
		f.Events = append(f.Events, e)
	}
	return f.compareWithFile(d, s, events)
}

func (f *Found) replayRecord(s *state.State, r decision.Record) ([]decision.Event, error) {
	plan, differs := replay.PlanAgain(s, r)
	if differs != nil {
		return nil, errors.New(differs.String())
	}
	if key, ok := resultOf(s.Run, r.Message); ok {
		if f.Results[key] != 0 {
			return nil, fmt.Errorf("a second result of %s, after record %d", key, f.Results[key])
		}
		f.Results[key] = r.Seq
	}
	var events []decision.Event
	for _, d := range plan.Decisions {
		events = append(events, decision.Apply(s, d, &r)...)
	}
	for _, e := range plan.Effects() {
		t, ok := e.(decision.DispatchTask)
		if !ok {
			continue // a child
		}
		key := keyOf(s.Run, t.Token, t.Attempt, t.Epoch)
		if f.Out[key] != 0 {
			return nil, fmt.Errorf("%s is dispatched again, after record %d", key, f.Out[key])
		}
		f.Out[key] = r.Seq
	}
	f.Records = append(f.Records, r)
	return events, nil
}

// compareWithFile holds the replayed state against the one that is stored.
func (f *Found) compareWithFile(d *store.Dir, s *state.State, events []decision.Event) error {
	stored, err := d.State(f.Head.Run)
	if err != nil {
		return err
	}
	out := decision.Outcome(s)
	switch {
	case f.Head.Seq != int64(len(f.Records)):
		return fmt.Errorf("the index ends with record %d, the journal with %d", f.Head.Seq, len(f.Records))
	case OutcomeText(f.Head.Outcome()) != OutcomeText(out):
		return fmt.Errorf("the index says %s, the journal %s", OutcomeText(f.Head.Outcome()), OutcomeText(out))
	case !f.Head.Alarm.Equal(s.Alarm()):
		return fmt.Errorf("the index has the alarm %v, the journal %v", f.Head.Alarm, s.Alarm())
	case rowsText(stored) != rowsText(s):
		return fmt.Errorf("the stored state is\n%s\nthe replayed one\n%s", rowsText(stored), rowsText(s))
	case !sameEvents(f.Events, events):
		return fmt.Errorf("the stored events are %v, the replayed ones %v", f.Events, events)
	}
	for _, e := range planning.Pending(s) {
		if t, ok := e.(decision.DispatchTask); ok {
			f.Pending[keyOf(s.Run, t.Token, t.Attempt, t.Epoch)] = true
		}
	}
	if !s.Status.Final() && len(planning.Pending(s)) == 0 && s.Alarm().IsZero() {
		return errors.New("it waits for nothing and has not ended")
	}
	return nil
}

func sameEvents(a, b []decision.Event) bool {
	for i := range min(len(a), len(b)) {
		if a[i].Seq != int64(i)+1 || fmt.Sprint(a[i]) != fmt.Sprint(b[i]) {
			return false
		}
	}
	return len(a) == len(b)
}

// rowsText is all that a state says.
func rowsText(s *state.State) string {
	rows := s.AllRows()
	facts, err := json.Marshal(rows.Facts)
	if err != nil {
		panic(fmt.Sprintf("facts: %v", err))
	}
	text := string(facts) + "\n"
	for _, t := range rows.Tokens {
		shown := *t
		shown.Memory = nil // a pointer
		text += fmt.Sprintf("%+v %+v\n", shown, t.Remembered())
	}
	for _, g := range rows.Groups {
		shown := *g
		shown.GroupCounts = nil // it would be shown as a pointer
		text += fmt.Sprintf("%+v %+v\n", shown, *g.GroupCounts)
	}
	text += fmt.Sprintf("%+v\n%+v\n", rows.Branches, rows.Items)
	for _, d := range rows.Data {
		text += fmt.Sprintf("%v %v %v %s\n", d.Scope, d.Path, d.Kind, value.Encode(d.Value))
	}
	return text
}

// resultOf returns the key that a message is the result of.
func resultOf(run workflow.RunID, m state.Message) (pawl.Key, bool) {
	switch m := m.(type) {
	case state.TaskCompleted:
		return keyOf(run, m.Token, m.Attempt, m.Epoch), true
	case state.TaskSnoozed:
		return keyOf(run, m.Token, m.Attempt, m.Epoch), true
	case state.TaskFailed:
		return keyOf(run, m.Token, m.Attempt, m.Epoch), true
	default:
		return "", false
	}
}

// keyOf is the name of an attempt: its key without the MAC. Hosts take keys as they
// are; the tests find every attempt by its name.
func keyOf(run workflow.RunID, token workflow.TokenID, attempt int, epoch state.Epoch) pawl.Key {
	return pawl.Key(taskkey.Attempt{Run: run, Token: token, Number: attempt, Epoch: epoch}.Name())
}

// nameOf returns the name of the attempt that a key is of, as keyOf makes it.
func nameOf(key pawl.Key) pawl.Key {
	return key[:max(strings.LastIndexByte(string(key), '.'), 0)]
}

// checkFiles opens the files of runs as anybody may, and finds everything in
// them, and nothing left in the log: but for children and forks that had ended when
// the process died. Nobody starts those again, so they may not be filed yet when the
// engine closes; the next Open goes on with it. Nobody can open files that are sealed,
// which are not plain; what is in them was read by the store.
func (snap Snapshot) checkFiles(dir string, plain bool) error {
	const left = `SELECT count(*) FROM log JOIN runs ON num = key >> 32 WHERE `
	index := filepath.Join(dir, "pawl.db")
	if n, err := countRows(index, left+`parent || forked_from = '' OR status < 4`); err != nil || n != 0 {
		return errors.Join(err, fmt.Errorf("%d records are left in the log", n))
	}
	const miscounted = `SELECT count(*) FROM (SELECT workflow, status, count(*) AS runs FROM runs GROUP BY 1, 2) AS r
		FULL JOIN run_counts AS c USING (workflow, status) WHERE r.runs IS NOT c.runs`
	if n, err := countRows(index, miscounted); err != nil || n != 0 {
		return errors.Join(err, fmt.Errorf("%d counts of runs are wrong", n))
	}
	const stray = `SELECT count(*) FROM parts WHERE key >> 20 NOT IN (SELECT parts FROM log WHERE parts IS NOT NULL)`
	if n, err := countRows(index, stray); err != nil || n != 0 {
		return errors.Join(err, fmt.Errorf("%d parts of no record are left", n))
	}
	for id, f := range snap {
		if n, err := countRows(index, left+`id = '`+string(id)+`'`); err != nil {
			return err
		} else if n > 0 || !plain {
			continue
		}
		for query, want := range map[string]int{
			`SELECT seq FROM meta`:                            len(f.Records),
			`SELECT count(*) FROM journal`:                    len(f.Records),
			`SELECT count(*) FROM events`:                     len(f.Events),
			`SELECT max(revision) - count(*) FROM definition`: 0,
			`PRAGMA application_id`:                           0x70617772,
			`SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'`: 1,
		} {
			n, err := countRows(filepath.Join(dir, f.Head.File), query)
			if err != nil || n != want {
				return errors.Join(err, fmt.Errorf("file of run %q: %s: %d, want %d", string(id), query, n, want))
			}
		}
	}
	return nil
}

// countRows returns the number that a query of a database answers.
func countRows(path, query string) (n int, err error) {
	c, err := sqlite.Open(path, ``)
	if err != nil {
		return 0, err
	}
	_, err = c.One(query, func(r *sqlite.Row) error { n = r.Int(0); return nil })
	return n, errors.Join(err, c.Close())
}
