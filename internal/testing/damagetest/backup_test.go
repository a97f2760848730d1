package damagetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/witness"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/workflow"
)

// TestBackupsEqualOneCommit backs up a directory, again and again, in which runs
// go on one acknowledged commit after the other. Every backup must be sound, and
// what it holds must be the state between two commits; a run is never further
// than one that was to wait for it.
func TestBackupsEqualOneCommit(t *testing.T) {
	harness.InTurn(t, 4)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	base := harness.Workspace(t)
	p := newTroupe()
	e, err := pawl.Open(ctx, filepath.Join(base, "live"), pawl.Options{Executor: p})
	require.NoError(t, err)
	_, err = e.Publish(t.Context(), witness.MustParse(workYAML))
	require.NoError(t, err)
	ids := []workflow.RunID{"a", "b", "c"}
	for _, id := range ids {
		new(scene).start(ctx, t, e, "work", string(id))
	}
	p.expect(ctx, t, len(ids))
	// Some signals for every backup, one at a time: to a, b, c, a, ...
	pace := harness.Figure(12, 12, 3) // or the runs become long
	rounds := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for i := 0; ; i++ {
			if i%pace == 0 {
				if _, more := <-rounds; !more {
					return
				}
			}
			s := workflow.Signal{Name: "n", ID: fmt.Sprint(i), Payload: i, Early: true}
			if err := e.Signal(ctx, ids[i%len(ids)], s); err != nil {
				t.Error(err)
			}
		}
	})
	n := harness.Figure(10, 50, 1000)
	var y tally
	var last int64
	for i := range n {
		into := filepath.Join(base, fmt.Sprint("backup-", i))
		before := total(ctx, t, e)
		rounds <- struct{}{}
		_, err := e.Backup(ctx, into)
		require.NoError(t, err)
		after := total(ctx, t, e)
		got := y.oneCommit(t, into, ids)
		if got < before || got > after || got < last {
			y.violate("backup %d has %d records; there were %d before it and %d after it", i, got, before, after)
		}
		if got > last {
			y.count("further than the one before")
		}
		y.count("backups")
		last = got
		require.NoError(t, os.RemoveAll(into))
	}
	close(rounds)
	group.Wait()
	require.NoError(t, e.Close(ctx))
	y.report(t, n, "further than the one before")
}

// total returns how many records all runs have.
func total(ctx context.Context, t *testing.T, e *pawl.Engine) (n int64) {
	for r, err := range e.Runs(ctx, pawl.RunFilter{}) {
		require.NoError(t, err)
		n += r.Seq
	}
	return n
}

// oneCommit checks that a backup holds a state that was, and returns how many
// records it has.
func (y *tally) oneCommit(t *testing.T, into string, ids []workflow.RunID) (n int64) {
	r, err := rescue.Verify(t.Context(), into, rescue.Options{})
	require.NoError(t, err)
	if r.Damage > 0 {
		y.violate("%v", r.Findings)
	}
	h, err := read(into)
	require.NoError(t, err)
	q := h.seqs()
	for i, id := range ids {
		n += q[id]
		if d := q[ids[0]] - q[id]; h.runs[id].err != nil || d < 0 || d > 1 || i > 0 && q[id] > q[ids[i-1]] {
			y.violate("the signals came in turn, but the runs have %v records: %v", q, h.runs[id].err)
		}
	}
	return n
}

// TestOlderCopies puts older copies of single files in the place of what is there
// now. Each must be noticed, and nobody else's run be touched.
func TestOlderCopies(t *testing.T) {
	harness.InTurn(t, 4)
	s := newScene(t, harness.Workspace(t))
	cold := tell(t, s.cold)
	later := filepath.Join(harness.Workspace(t), "later") // a third engine, which has closed
	copyDir(t, s.hot, later)
	_, err := read(later)
	require.NoError(t, err)
	file := fileOf(t, s.hot, "wait-1")
	copies := []struct {
		name     string
		of, into string
		file     string
		run      workflow.RunID // that is refused; "" is all
	}{
		{"pawl.db of an engine before", s.cold, later, indexFile, ""},
		{"log of an engine before", s.hot, later, indexWAL, ""},
		{"mark of an engine before", s.cold, s.hot, lockFile, ""},
		{"mark of an engine before, which had not closed", s.hot, later, lockFile, ""},
		{"file of another run", s.hot, s.hot, file, "wait-2"},
	}
	places := make([]string, len(copies))
	for i, c := range copies {
		if places[i] = c.file; c.run != "" {
			places[i] = fileOf(t, c.into, c.run)
		}
	}
	var y tally
	n := len(copies) * harness.Figure(1, 9, 160)
	trials(t, n, func(i int, _ *rand.Rand, dir string) {
		c := copies[i%len(copies)]
		copyDir(t, c.into, dir)
		writeFile(t, readFile(t, c.of, c.file), dir, places[i%len(copies)])
		before := harness.Contents(t, dir)
		h, err := read(dir)
		y.count(c.name)
		switch {
		case c.run == "" && err != nil && typed(err):
			y.count("refused")
			y.unchanged(t, c.name, before, dir)
			y.sampled(t, i/len(copies), dir, s.truth, cold)
		case c.run == "" || err != nil:
			y.violate("%s: %v, %v", c.name, err, h.seqs())
		default:
			for id, w := range h.runs {
				if (id == c.run) != (w.err != nil) {
					y.violate("%s: run %s: %v", c.name, id, w.err)
				}
			}
		}
	})
	var must []string
	for _, c := range copies {
		must = append(must, c.name)
	}
	y.report(t, n, append(must, "refused")...)
}

// TestNothingIsDispatchedForDamagedRuns opens engines on directories in which
// files of runs are damaged: those are left alone, the others go on.
func TestNothingIsDispatchedForDamagedRuns(t *testing.T) {
	s := newScene(t, harness.Workspace(t))
	ids := []workflow.RunID{"wait-1", "wait-2", "wait-3"}
	files := map[workflow.RunID]string{}
	for _, id := range ids {
		files[id] = fileOf(t, s.hot, id)
	}
	base := harness.Workspace(t)
	n := harness.Figure(10, 30, 300)
	var y tally
	for i := range n {
		rng := rand.New(rand.NewPCG(*seed, uint64(i)))
		dir := filepath.Join(base, fmt.Sprint(i))
		copyDir(t, s.hot, dir)
		bad := ids[rng.IntN(len(ids))]
		path := filepath.Join(dir, files[bad])
		data := readFile(t, path)
		for now := data; slices.Equal(now, data); {
			now = mutations[i%len(mutations)].do(slices.Clone(data), rng)
			writeFile(t, now, path)
		}
		y.damagedEngine(t, dir, bad, ids)
		require.NoError(t, os.RemoveAll(dir))
	}
	y.report(t, n, "refused", "gone on")
}

func (y *tally) damagedEngine(t *testing.T, dir string, bad workflow.RunID, ids []workflow.RunID) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p := newTroupe()
	e, err := pawl.Open(ctx, dir, pawl.Options{Executor: p})
	require.NoError(t, err)
	p.expect(ctx, t, 5) // the other two, and three that have no file
	if _, err := e.Inspect(ctx, bad); typed(err) {
		y.count("refused")
	} else {
		y.violate("run %s: %v", bad, err)
	}
	if err := e.Signal(ctx, bad, workflow.Signal{Name: "n", Early: true}); err == nil {
		y.violate("run %s takes a signal", bad)
	}
	for _, id := range ids {
		if id == bad {
			continue
		}
		require.NoError(t, e.Complete(ctx, p.keys[id], map[string]any{"v": 1}))
		out, err := e.Wait(ctx, id)
		require.NoError(t, err)
		require.Equal(t, workflow.RunCompleted, out.Status)
		y.count("gone on")
	}
	require.NoError(t, e.Close(ctx))
	if p.begun[bad] > 0 {
		y.violate("run %s is damaged, and a task of it was dispatched", bad)
	}
}
