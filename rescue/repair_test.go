package rescue

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// repaired repairs a directory into a new one, which must be sound, and checks
// that the old one is as it was.
func repaired(t testing.TB, path string) (*store.Dir, *Report) {
	before := hashes(t, path)
	into := filepath.Join(t.TempDir(), "repaired")
	r, err := Repair(t.Context(), path, into, Options{})
	require.NoError(t, err)
	require.Equal(t, before, hashes(t, path))
	beside, err := os.ReadDir(filepath.Dir(into))
	require.NoError(t, err)
	require.Len(t, beside, 1)
	for _, f := range verified(t, into).Findings {
		if !strings.HasSuffix(f.What, ": missing") { // a blob that was lost is
			require.False(t, f.Damage, f.String())
		}
	}
	return open(t, into), r
}

// lines returns all findings, one a line.
func lines(r *Report) string {
	var out []string
	for _, f := range r.Findings {
		out = append(out, f.String())
	}
	return strings.Join(out, "\n")
}

func TestRepairOfASoundDirectory(t *testing.T) {
	path := t.TempDir()
	d, files := furnished(t, path)
	_, err := Repair(t.Context(), path, filepath.Join(t.TempDir(), "x"), Options{})
	require.ErrorIs(t, err, store.ErrLocked)
	require.NotContains(t, err.Error(), "already closed")
	dead := crashed(t, path)
	require.NoError(t, files.Close())
	got, r := repaired(t, dead)
	require.Empty(t, r.Findings)
	require.Equal(t, []int{4, 4, 2, 16}, []int{r.Runs, r.Files, r.Blobs, int(r.Records)})
	for h, err := range d.AllHeads(store.RunFilter{}) {
		require.NoError(t, err)
		again, err := got.Head(h.Run)
		require.NoError(t, err)
		h.File, again.File = "", "" // another nonce
		require.Equal(t, h, again)
		require.Equal(t, all(t, d.History(h.Run)), all(t, got.History(h.Run)))
		require.Equal(t, all(t, d.Events(h.Run, 0)), all(t, got.Events(h.Run, 0)))
	}
	_, err = got.Published(t.Context(), "fan", 3)
	require.NoError(t, err)
	paid, err := got.Outcome(t.Context(), "paid")
	require.NoError(t, err)
	require.Contains(t, paid, "$blob")
	load(t, got, "parts").do(state.Heartbeat{Token: 1})
}

// After any damage, the restored directory is sound: every run in it has the
// first records that it had, and perhaps its suspension.
func TestRepairRestoresPrefixes(t *testing.T) {
	harness.InTurn(t, 4)
	for i, tt := range harms() {
		if harness.CurrentLevel() == harness.Quick && i%6 > 0 {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			path := settled(t)
			was := map[workflow.RunID][]decision.Record{}
			d := open(t, path)
			for h := range d.AllHeads(store.RunFilter{}) {
				was[h.Run] = all(t, d.History(h.Run))
			}
			require.NoError(t, d.Close())
			tt.do(t, path)
			got, r := repaired(t, path)
			n := 0
			for h, err := range got.AllHeads(store.RunFilter{}) {
				require.NoError(t, err)
				records := all(t, got.History(h.Run))
				if len(records) > 0 && h.Status == workflow.RunSuspended {
					require.Contains(t, lines(r), string(h.Run))
					require.Contains(t, h.Failure.Message, "repaired: it is restored up to record")
					records = records[:len(records)-1]
				} else {
					require.Len(t, records, len(was[h.Run]))
				}
				require.Equal(t, was[h.Run][:len(records)], records)
				n++
			}
			require.Equal(t, r.Runs, n)
			for _, id := range slices.Collect(maps.Keys(was)) {
				if _, err := got.Head(id); err != nil && len(r.files()) == 0 {
					require.Contains(t, lines(r), string(id))
				}
			}
		})
	}
}

// files returns what was found about the index as a whole.
func (r *Report) files() (out []Finding) {
	for _, f := range r.Findings {
		if f.Damage && f.Run == "" {
			out = append(out, f)
		}
	}
	return out
}

func TestRepairSays(t *testing.T) {
	harness.InTurn(t, 4)
	all := []workflow.RunID{"ended", "fresh", "leftover", "parts"}
	tests := []struct {
		harm      string
		damage    int
		runs      []workflow.RunID
		suspended []workflow.RunID
		says      string
	}{
		{"file is gone", 1, []workflow.RunID{"fresh", "leftover", "parts"}, nil, `run "ended": nothing is left of it`},
		{"state", 0, all, nil, ""},
		{"events", 0, all, nil, ""},
		{"journal", 1, all, []workflow.RunID{"ended"}, `run "ended": it is restored up to record 1 of 6: runs/`},
		{"values", 1, []workflow.RunID{"fresh", "leftover", "parts"}, nil, "no value with the hash"},
		{"row", 0, all, nil, `note: `},
		{"alarm", 0, all, nil, ""},
		{"reference", 0, all, nil, ""},
		{"secret", 0, all, nil, "there is a new one"},
		{"published", 1, all, nil, "the definition published as fan version 3 is lost"},
		{"outcome", 1, all, nil, `the outcome kept under "paid" is lost`},
		{"blob is gone", 1, all, nil, "blobs/"},
		{"blob is damaged", 1, all, nil, "damaged"},
		{"index", 3, []workflow.RunID{"ended", "parts"}, []workflow.RunID{"parts"}, "the published definitions, the schedules and the kept outcomes are lost; publish them again, apply the schedules from their file"},
		{"index is text", 3, []workflow.RunID{"ended", "parts"}, []workflow.RunID{"parts"}, `run "parts": it is restored up to record 2, and later ones may be lost`},
	}
	known := map[string]harm{}
	for _, h := range harms() {
		known[h.name] = h
	}
	for _, tt := range tests {
		t.Run(tt.harm, func(t *testing.T) {
			path := settled(t)
			known[tt.harm].do(t, path)
			d, r := repaired(t, path)
			require.Equal(t, tt.damage, r.Damage, lines(r))
			require.Contains(t, lines(r), tt.says)
			var runs, suspended []workflow.RunID
			for h, err := range d.AllHeads(store.RunFilter{}) {
				require.NoError(t, err)
				runs = append(runs, h.Run)
				if h.Status == workflow.RunSuspended {
					suspended = append(suspended, h.Run)
				}
			}
			require.ElementsMatch(t, tt.runs, runs)
			require.ElementsMatch(t, tt.suspended, suspended)
		})
	}
}

// A log that was lost takes the newest commits with it; nothing that is left
// goes on as if it had not.
func TestRepairWithoutTheLog(t *testing.T) {
	path := t.TempDir()
	furnished(t, path)
	dead := crashed(t, path)
	require.NoError(t, os.Remove(filepath.Join(dead, index.WALFile)))
	d, r := repaired(t, dead)
	require.Positive(t, r.Damage)
	for h, err := range d.AllHeads(store.RunFilter{}) {
		require.NoError(t, err)
		require.Contains(t, []workflow.RunStatus{workflow.RunCompleted, workflow.RunSuspended}, h.Status, h.Run)
	}
	_, err := d.Head("ended")
	require.NoError(t, err, "its file tells of it")
	o := load(t, d, "parts")
	require.Equal(t, workflow.RunSuspended, o.state.Status)
	o.do(state.Resume{}, decision.ResumeRun{})
	o.do(state.Heartbeat{Token: 1})
}

// putBack puts files of a directory back to what they are in another.
func putBack(t *testing.T, from, path string, names ...string) {
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(from, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(path, name), data, 0o600))
	}
}

// Where nothing says whether pawl.db is the last one, its silence about a file does not make it one of no run, also when an engine has opened it.
func TestRepairWithoutALockRecord(t *testing.T) {
	path := settled(t)
	older := crashed(t, path)
	d := open(t, path)
	late := start(t, d, "late")
	late.five(nil)
	require.NoError(t, late.file())
	want := all(t, d.History("late"))
	require.NoError(t, d.Close())
	putBack(t, older, path, index.File)
	for _, harm := range []func(string) error{func(lock string) error { return os.Truncate(lock, 0) }, os.Remove} {
		require.NoError(t, harm(filepath.Join(path, index.LockFile)))
		report := verified(t, path)
		require.Equal(t, 1, report.Damage, lines(report))
		require.Contains(t, lines(report), "so nothing tells whether pawl.db is the last one")
		require.Contains(t, lines(report), "it may be the file of a run")
		got, _ := repaired(t, path)
		require.Equal(t, want, all(t, got.History("late")))
	}
	require.NoError(t, open(t, path).Close()) // which leaves a record
	report := verified(t, path)
	require.Equal(t, 1, report.Damage, lines(report))
	require.Contains(t, lines(report), "it may be the file of a run")
	got, _ := repaired(t, path)
	require.Equal(t, want, all(t, got.History("late")))
}

// A pawl.db that was put back, with its lock record, knows less of a run than its file has, and nothing of later runs.
func TestRepairWithAnOlderIndex(t *testing.T) {
	path := settled(t)
	older := crashed(t, path)
	d := open(t, path)
	parts := load(t, d, "parts")
	parts.do(state.Heartbeat{Token: 1})
	require.NoError(t, parts.file())
	late := start(t, d, "late")
	late.five(nil)
	require.NoError(t, late.file())
	want := map[workflow.RunID][]decision.Record{"parts": all(t, d.History("parts")), "late": all(t, d.History("late"))}
	require.NoError(t, d.Close())
	putBack(t, older, path, index.File, index.LockFile)
	got, r := repaired(t, path)
	require.Contains(t, lines(r), `run "parts": it is restored up to record 4 of its file, though pawl.db is of an earlier time and knows 3`)
	head, err := got.Head("parts")
	require.NoError(t, err)
	require.Equal(t, workflow.RunSuspended, head.Status)
	require.Equal(t, want["parts"], all(t, got.History("parts"))[:4])
	require.Equal(t, want["late"], all(t, got.History("late")))
	require.Equal(t, 5, r.Runs)

	// A row that tells of other records does not get these.
	lock, err := os.ReadFile(filepath.Join(path, index.LockFile))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(path, index.LockFile), append(lock[:len("closed 0123456789abcdef")], '\n'), 0o600))
	const num = 2 // of parts
	values := index.LastColumns(num, &runfile.Entry{Encoded: decision.Encoded{Seq: 2, At: at(2)}, Sum: runfile.FirstSum("another")})
	db, err := sqlite.OpenKeeping(filepath.Join(path, index.File), `PRAGMA journal_mode=WAL`)
	require.NoError(t, err)
	n, err := db.Exec(`UPDATE runs SET seq = ?, sum = ?, at = ?, last_crc = ? WHERE num = ?`, append(values, int64(num))...)
	require.NoError(t, err)
	require.Equal(t, 1, int(n))
	require.NoError(t, db.Close())
	require.NoError(t, os.RemoveAll(filepath.Join(path, index.WALFile)))
	_, r = repaired(t, path)
	require.Contains(t, lines(r), `run "parts": nothing is left of it: the records in its file, up to 4, are of another run, or of another time than pawl.db: a repair without pawl.db restores them`)
}

func TestRepairRefuses(t *testing.T) {
	path := settled(t)
	before := hashes(t, path)
	for _, into := range []string{path, filepath.Join(path, "x"), filepath.Join(path, index.File)} {
		_, err := Repair(t.Context(), path, into, Options{})
		require.ErrorIs(t, err, store.ErrNotEmpty, into)
	}
	_, err := Repair(t.Context(), t.TempDir(), filepath.Join(t.TempDir(), "x"), Options{})
	require.ErrorIs(t, err, store.ErrNotOurs)
	require.Equal(t, before, hashes(t, path))
}

// An ending is a context that ends after it was asked so many times.
type ending struct {
	context.Context
	asks int
}

func (c *ending) Err() error {
	if c.asks--; c.asks < 0 {
		return context.Canceled
	}
	return nil
}

// Both end with their context, wherever they are by then, and a repair leaves nothing behind.
func TestEndsWithTheContext(t *testing.T) {
	path := settled(t)
	for asks := range 3 {
		_, err := Verify(&ending{context.Background(), asks}, path, Options{})
		require.ErrorIs(t, err, context.Canceled)
		folder := t.TempDir()
		_, err = Repair(&ending{context.Background(), asks}, path, filepath.Join(folder, "x"), Options{})
		require.ErrorIs(t, err, context.Canceled)
		left, err := os.ReadDir(folder)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

// Keys of tasks that are out are good in the repaired directory as well.
func TestRepairKeepsTheSecret(t *testing.T) {
	path := settled(t)
	d := open(t, path)
	secret := d.Secret()
	require.NoError(t, d.Close())
	to, _ := repaired(t, path)
	require.Equal(t, secret, to.Secret())
}

// Lists of runs have the order in which the runs came, also where only their files tell it, and a child that is older than its parent by a
// clock that was set back comes behind it.
func TestRepairKeepsTheOrder(t *testing.T) {
	for name, harm := range map[string]func(string) error{
		"index": func(path string) error { return os.Remove(filepath.Join(path, index.File)) },
		"log":   func(string) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			d := open(t, path)
			begin := func(id workflow.RunID, second int, parent *workflow.Parent) {
				o := start(t, d, id)
				if parent != nil {
					o.run = d.New(store.Head{Run: id, InputHash: "in", Parent: parent.Run, Root: parent.Root}, graph(t))
				}
				r := o.record(state.Start{Parent: parent}, startRun(nil), createToken(1, "start"), dispatch(1))
				r.At = at(second)
				require.NoError(t, runfile.ApplyRecord(o.state, &r, func(es []decision.Event) { o.events = append(o.events, es...) }))
				require.NoError(t, o.run.Commit(o.state, []decision.Record{r}))
				require.NoError(t, o.file())
			}
			begin("m", 10, nil)
			begin("z", 20, nil)
			begin("z/1.1", 15, &workflow.Parent{Run: "z", Root: "z", Token: 1})
			begin("a", 40, nil)
			begin("a/1.1", 41, &workflow.Parent{Run: "a", Root: "a", Token: 1})
			begin("k", 50, nil)
			require.NoError(t, d.Close())
			require.NoError(t, harm(path))
			got, _ := repaired(t, path)
			var order []workflow.RunID
			for h, err := range got.AllHeads(store.RunFilter{}) {
				require.NoError(t, err)
				order = append(order, h.Run)
			}
			require.Equal(t, []workflow.RunID{"m", "z", "z/1.1", "a", "a/1.1", "k"}, order)
		})
	}
}

// A file of a run with a view that no engine makes is not read: SQLite would execute it, and it may have no end.
func TestRepairReadsNoForeignView(t *testing.T) {
	path := settled(t)
	d := open(t, path)
	head, err := d.Head("ended")
	require.NoError(t, err)
	require.NoError(t, d.Close())
	file := filepath.Join(path, head.File)
	db, err := sqlite.Open(file, `ALTER TABLE journal RENAME TO hidden;
		CREATE VIEW journal AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 9) SELECT hidden.* FROM hidden JOIN n`)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	_, err = store.OpenRunFile(file, nil)
	require.ErrorIs(t, err, store.ErrCorrupt)
	require.ErrorContains(t, err, `an engine makes no "journal" in its schema`)
	_, r := repaired(t, path)
	require.Contains(t, lines(r), "an engine makes no")
	_, err = replay.Open(file, replay.Options{})
	require.ErrorIs(t, err, store.ErrCorrupt)
}

// A pawl.db that was put back names the definition of an earlier run of the id. The one in the file of the run comes
// first, and the other is tried where that cannot be read.
func TestRepairWithTheDefinitionOfAnEarlierRun(t *testing.T) {
	path := settled(t)
	older := crashed(t, path)
	d := open(t, path)
	require.NoError(t, d.Purge("ended", ""))
	def, err := workflow.ParseJSON([]byte(`{"name": "asks", "version": 2, "start": "ask", "nodes": [{"id": "ask", "approval": {"quorum": 1}}]}`))
	require.NoError(t, err)
	g, err := compiled.Compile(workflow.Bounds{}, def)
	require.NoError(t, err)
	o := &owner{t: t, dir: d, run: d.New(store.Head{Run: "ended", InputHash: "in"}, g), state: state.NewState("ended", g)}
	o.do(state.Start{}, startRun(nil), createToken(1, "ask"), decision.RequestApproval{Token: 1, Attempt: 1})
	require.NoError(t, o.file())
	want := all(t, d.History("ended"))
	require.NoError(t, o.run.Close())
	require.NoError(t, d.Close())
	putBack(t, older, path, index.File)
	got, r := repaired(t, path)
	head, err := got.Head("ended")
	require.NoError(t, err, lines(r))
	require.Equal(t, []any{"asks", 2}, []any{head.Workflow, head.Version}, lines(r))
	require.Equal(t, want, all(t, got.History("ended"))[:1])
}

// The records of a run are applied with the definition with which they go furthest.
func TestRecordsGoAsFarAsADefinitionLetsThem(t *testing.T) {
	def, err := workflow.ParseJSON([]byte(`{"name": "asks", "start": "ask", "nodes": [{"id": "ask", "approval": {"quorum": 1}}]}`))
	require.NoError(t, err)
	g, err := compiled.Compile(workflow.Bounds{}, def)
	require.NoError(t, err)
	records := []decision.Record{
		{Seq: 1, At: zero, Message: state.Start{}, Decisions: []decision.Decision{startRun(nil), createToken(1, "ask")}},
		{Seq: 2, At: zero, Message: state.AlarmFired{}, Decisions: []decision.Decision{decision.RequestApproval{Token: 1, Attempt: 1}}},
	}
	m := &recovered{id: "r", seq: 2, records: records, entries: make([]*runfile.Entry, 2), graphs: []*compiled.Graph{graph(t), g}}
	require.NoError(t, m.replayAll())
	require.Same(t, g, m.graphs[0])
	require.Len(t, m.records, 2)
}
