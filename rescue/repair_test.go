package rescue

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// repaired repairs a directory into a new one, which must be sound, and checks
// that the old one is as it was.
func repaired(t testing.TB, path string) (*store.Dir, *Report) {
	before := hashes(t, path)
	into := filepath.Join(t.TempDir(), "repaired")
	r, err := Repair(path, into, Options{})
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
	_, err := Repair(path, filepath.Join(t.TempDir(), "x"), Options{})
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

func TestRepairRefuses(t *testing.T) {
	path := settled(t)
	before := hashes(t, path)
	for _, into := range []string{path, filepath.Join(path, "x"), filepath.Join(path, index.File)} {
		_, err := Repair(path, into, Options{})
		require.ErrorIs(t, err, store.ErrNotEmpty, into)
	}
	_, err := Repair(t.TempDir(), filepath.Join(t.TempDir(), "x"), Options{})
	require.ErrorIs(t, err, store.ErrNotOurs)
	require.Equal(t, before, hashes(t, path))
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
