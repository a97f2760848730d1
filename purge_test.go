package pawl_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/workflow"
)

// Purge forgets an ended run with all that is below it, and its id is free.
func TestPurge(t *testing.T) {
	dir := t.TempDir()
	e, err := pawl.Open(t.Context(), dir, pawl.Options{Executor: pawl.Handlers{"work": double, "hold": hold}})
	require.NoError(t, err)
	publish(t, e, define(t, "name: leaf\nstart: a\nnodes: [{id: a}]\n"))
	publish(t, e, define(t, "name: middle\nstart: a\nnodes: [{id: a, subworkflow: {name: leaf}}]\n"))
	family := define(t, "name: top\nstart: a\nnodes: [{id: a}, {id: b, subworkflow: {name: middle}}]\ntransitions: [{from: a, to: b, spawnCount: 3}]\n")
	one := define(t, oneTask)
	for id, d := range map[workflow.RunID]*workflow.Definition{"family": family, "one": one, "kept": one} {
		out, err := e.Run(t.Context(), workflow.Run{ID: id, Definition: d}, map[string]any{"n": 1})
		require.NoError(t, err)
		require.NoError(t, out.Err())
	}
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "going", Definition: define(t, "name: w\nstart: a\nnodes: [{id: a, task: hold}]\n")}, nil))
	runs := func() (out []string) {
		for r, err := range e.Runs(t.Context(), pawl.RunFilter{}) {
			require.NoError(t, err)
			out = append(out, string(r.Run))
		}
		slices.Sort(out)
		return out
	}
	require.Len(t, runs(), 10)
	require.ErrorIs(t, e.Purge(t.Context(), "going"), pawl.ErrNotEnded)
	require.ErrorIs(t, e.Purge(t.Context(), "family/2.1"), pawl.ErrInvalid)
	require.ErrorIs(t, e.Purge(t.Context(), "nobody"), pawl.ErrRunNotFound)
	require.Len(t, runs(), 10)

	for id, want := range map[workflow.RunID]error{"going": pawl.ErrNotEnded, "family/2.1": pawl.ErrInvalid, "nobody": pawl.ErrRunNotFound} {
		_, err = e.DryRunPurge(t.Context(), id)
		require.ErrorIs(t, err, want)
	}
	seen, err := e.DryRunPurge(t.Context(), "family")
	require.NoError(t, err)
	require.Equal(t, pawl.PurgePreview{Run: "family", Runs: 7, Bytes: seen.Bytes}, seen)
	require.Len(t, runs(), 10, "nothing is changed")
	next, stop := watching(t, t.Context(), e, pawl.WatchFilter{Roots: true})
	defer stop()
	require.NoError(t, e.Purge(t.Context(), "family"))
	require.NoError(t, e.Purge(t.Context(), "one"))
	for _, id := range []workflow.RunID{"family", "one"} {
		c, err := next()
		require.NoError(t, err)
		require.True(t, c.Purged)
		require.Equal(t, id, c.Run)
	}
	require.Equal(t, []string{"going", "kept"}, runs())
	require.ErrorIs(t, e.Purge(t.Context(), "one"), pawl.ErrRunNotFound)
	_, err = e.Wait(t.Context(), "one")
	require.ErrorIs(t, err, pawl.ErrRunNotFound)
	out, err := e.Run(t.Context(), workflow.Run{ID: "one", Definition: one}, map[string]any{"n": 50})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"n": int64(100)}, out.Output, "the id is free")

	var group sync.WaitGroup
	for range 20 { // who asks for it meanwhile starts it anew, or finds it gone
		group.Go(func() {
			if out, err := e.Run(t.Context(), workflow.Run{ID: "one", Definition: one}, map[string]any{"n": 50}); err == nil {
				if out.Err() != nil {
					t.Error(out.Err())
				}
			} else {
				require.ErrorIs(t, err, pawl.ErrRunNotFound)
			}
		})
		group.Go(func() {
			if err := e.Purge(t.Context(), "one"); err != nil {
				for _, fine := range []error{pawl.ErrRunNotFound, pawl.ErrNotEnded} {
					if errors.Is(err, fine) {
						return
					}
				}
				t.Error(err)
			}
		})
	}
	group.Wait()
	require.NoError(t, e.Cancel(t.Context(), "going", ""))
	left := runs()
	require.NoError(t, e.Close(context.Background()))
	files, err := filepath.Glob(filepath.Join(dir, "runs", "*", "*.db"))
	require.NoError(t, err)
	require.Len(t, files, len(left), "no file is left of those that are gone")
}

// A running root keeps its children, also children that have ended.
func TestPurgeOfARunningRoot(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"hold": hold}})
	publish(t, e, define(t, "name: leaf\nstart: a\nnodes: [{id: a}]\n"))
	d := define(t, "name: top\nstart: a\nnodes: [{id: a}, {id: b, subworkflow: {name: leaf}}, {id: c, task: hold}]\ntransitions: [{from: a, to: b}, {from: a, to: c}]\n")
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "top", Definition: d}, nil))
	_, err := e.Wait(t.Context(), "top/2.1")
	for errors.Is(err, pawl.ErrRunNotFound) {
		_, err = e.Wait(t.Context(), "top/2.1")
	}
	require.NoError(t, err)
	require.ErrorIs(t, e.Purge(t.Context(), "top"), pawl.ErrNotEnded)
	_, err = e.Inspect(t.Context(), "top/2.1")
	require.NoError(t, err)
}

// Nothing of a run that is gone belongs to the one that has its id later: no key
// of an attempt, no handler that still runs, no outcome of a task.
func TestPurgedIDIsAnotherRun(t *testing.T) {
	old, results := make(chan pawl.Key, 1), make(chan struct{})
	defer close(results)
	var served atomic.Bool
	var effects atomic.Int64
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{
		"pending": func(_ context.Context, task pawl.Task) (any, error) {
			select {
			case old <- task.Key:
			default:
			}
			return nil, pawl.ErrPending
		},
		"deaf": func(ctx context.Context, task pawl.Task) (any, error) {
			if served.CompareAndSwap(false, true) {
				<-results // it does not look at its context
				return "old", nil
			}
			return task.Once(ctx, "", func(context.Context) (any, error) { return effects.Add(1), nil })
		},
	}})
	pending := define(t, "name: p\nstart: a\nnodes: [{id: a, task: pending}]\n")
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "p", Definition: pending}, nil))
	key := <-old
	require.NoError(t, e.Cancel(t.Context(), "p", ""))
	require.NoError(t, e.Purge(t.Context(), "p"))
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "p", Definition: pending}, nil))
	require.ErrorIs(t, e.Complete(t.Context(), key, 1), pawl.ErrStale)

	deaf := define(t, "name: d\nstart: a\nnodes: [{id: a, task: deaf, output: {output.who: result}}]\n")
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "d", Definition: deaf}, nil))
	require.NoError(t, e.Cancel(t.Context(), "d", ""))
	require.NoError(t, e.Purge(t.Context(), "d"))
	for n := range 2 {
		out, err := e.Run(t.Context(), workflow.Run{ID: "d", Definition: deaf}, nil)
		require.NoError(t, err)
		require.Equal(t, map[string]any{"who": int64(n + 1)}, out.Output)
		require.NoError(t, e.Purge(t.Context(), "d"))
	}
}

// A caller who asks for a run that is just being purged, for instance on a disk that does not answer, waits no longer than
// its own context.
func TestNobodyWaitsTooLongForAPurge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := &testhook.Hook{}
		e := openWith(t, hook, t.TempDir(), pawl.Options{})
		d := define(t, "name: d\nstart: a\nnodes: [{id: a}]\n")
		_, err := e.Run(t.Context(), workflow.Run{ID: "a", Definition: d}, nil)
		require.NoError(t, err)
		<-time.After(time.Second) // until it has its file
		reached, goOn := make(chan struct{}), make(chan struct{})
		reset := hook.OnHit(func(name string) {
			if name == "commit.begin" {
				close(reached)
				<-goOn
			}
		})
		purged := make(chan error)
		go func() { purged <- e.Purge(t.Context(), "a") }()
		<-reached
		reset()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		asked := make(chan error, 1)
		go func() { asked <- e.Signal(ctx, "a", workflow.Signal{Name: "x"}) }()
		<-time.After(2 * time.Second)
		synctest.Wait()
		select {
		case err := <-asked:
			require.ErrorIs(t, err, context.DeadlineExceeded)
		default:
			t.Error("it still waits")
		}
		close(goOn)
		require.NoError(t, <-purged)
	})
}

// PurgeBefore forgets the runs that ended before an instant, and their children; runs that ended then or later, or have not
// ended, stay.
func TestPurgeBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": double, "hold": hold}})
		publish(t, e, define(t, "name: leaf\nstart: a\nnodes: [{id: a}]\n"))
		require.NoError(t, e.Start(ctx, workflow.Run{ID: "runs", Definition: define(t, "name: w\nstart: a\nnodes: [{id: a, task: hold}]\n")}, nil))
		parent := define(t, "name: top\nstart: a\nnodes: [{id: a, subworkflow: {name: leaf}}]\n")
		ended := map[workflow.RunID]time.Time{}
		for _, id := range []workflow.RunID{"c", "a", "b"} {
			out, err := e.Run(ctx, workflow.Run{ID: id, Definition: parent}, nil)
			require.NoError(t, err)
			ended[id] = out.EndedAt
			timer := time.NewTimer(time.Hour)
			<-timer.C
		}
		left := func() (out []workflow.RunID) {
			for r, err := range e.Runs(ctx, pawl.RunFilter{}) {
				require.NoError(t, err)
				out = append(out, r.Run)
			}
			return out
		}
		require.Len(t, left(), 7)
		n, err := e.PurgeBefore(ctx, ended["c"])
		require.NoError(t, err)
		require.Zero(t, n)
		n, err = e.PurgeBefore(ctx, ended["b"])
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.Equal(t, []workflow.RunID{"runs", "b", "b/1.1"}, left())
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		_, err = e.PurgeBefore(cancelled, time.Now())
		require.ErrorIs(t, err, context.Canceled)
		require.Len(t, left(), 3)

		for id, text := range map[workflow.RunID]string{
			"late":   "name: late\nstart: a\ntimeout: 1s\nnodes: [{id: a, wait: {for: 1h}}]\n",
			"failed": "name: failed\nstart: a\nnodes: [{id: a, end: {fail: broken}}]\n",
		} {
			_, err = e.Run(ctx, workflow.Run{ID: id, Definition: define(t, text)}, nil)
			require.NoError(t, err)
		}
		require.NoError(t, e.Cancel(ctx, "runs", ""))
		n, err = e.PurgeBefore(ctx, time.Now().Add(time.Hour))
		require.NoError(t, err)
		require.Equal(t, 4, n, "however they ended")
		require.Empty(t, left())
	})
}

// A run that has ended is in nobody's way while its file waits for others: it can be purged, the engine closed, and the next
// run of its tenant started, at once.
func TestARunThatHasEndedHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := map[string]pawl.TenantLimit{"*": {Active: 1}}
		e := openWith(t, &testhook.Hook{}, t.TempDir(), pawl.Options{MaxActive: 1, Tenants: limits})
		d := define(t, "name: d\nstart: a\nnodes: [{id: a}]\n")
		begin := time.Now()
		for _, id := range []workflow.RunID{"a", "b", "c"} {
			_, err := e.Run(t.Context(), workflow.Run{ID: id, Tenant: "x", Definition: d}, nil)
			require.NoError(t, err)
			synctest.Wait()
		}
		require.NoError(t, e.Purge(t.Context(), "c"))
		require.NoError(t, e.Close(t.Context()))
		require.Zero(t, time.Since(begin))
	})
}
