package pawl_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/workflow"
)

// crashes makes a fork, with a copy of the directory at every failpoint that is met on the
// way: what a crash there would leave. One record of the fork is put aside in parts.
func crashes(t *testing.T, o pawl.ForkOptions) (points, copies []string) {
	hook, dir := &testhook.Hook{}, harness.Workspace(t)
	e := openWith(t, hook, dir, pawl.Options{})
	large := strings.Repeat("large ", 300)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, quotes)}, map[string]any{"of": []any{"acme", large, "cord"}}))
	require.NoError(t, e.Complete(t.Context(), tasksOut(t, e, "a")["quote1"], large))
	hook.SetPartBytes(1000)
	return copiesDuring(t, hook, dir, func() { require.NoError(t, e.Fork(t.Context(), "a", "b", o)) })
}

// copiesDuring copies a directory at every failpoint that is met while do goes on. The engine may
// meet some more when do has returned.
func copiesDuring(t *testing.T, hook *testhook.Hook, dir string, do func()) (points, copies []string) {
	t.Helper()
	var mu sync.Mutex
	over := false
	reset := hook.OnHit(func(point string) {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		to := harness.Workspace(t)
		points, copies = append(points, point), append(copies, to)
		require.NoError(t, harness.CopyLive(to, dir))
	})
	do()
	reset()
	mu.Lock()
	defer mu.Unlock()
	over = true
	return points, copies
}

// A crash while a fork is made leaves all of it, or nothing; made again it is the same, and
// it ends as it does without a crash.
func TestCrashesWhileAForkIsMade(t *testing.T) {
	o := pawl.ForkOptions{At: 2, Results: []workflow.ForkResult{{Token: 2, Output: "given"}}}
	points, copies := crashes(t, o)
	for _, p := range []string{"fork.ask", "commit.part", "commit.begin", "commit.row", "commit.inside", "commit.done", "fork.answer"} {
		require.Contains(t, points, p)
	}
	whole := 0
	for i, dir := range copies {
		if harness.CurrentLevel() == harness.Quick && slices.Contains(points[:i], points[i]) && slices.Contains(points[i+1:], points[i]) {
			continue // neither the first hit of it nor the last
		}
		e := open(t, dir, pawl.Options{Executor: pawl.Handlers{"*": func(_ context.Context, task pawl.Task) (any, error) {
			return task.Type + string(task.Run), nil
		}}})
		_, err := e.Inspect(t.Context(), "b")
		if err == nil {
			whole++
		} else {
			require.ErrorIs(t, err, pawl.ErrRunNotFound, points[i])
			require.Zero(t, whole, "it was there at %s, and is not at %s", points[max(i-1, 0)], points[i])
		}
		require.NoError(t, e.Fork(t.Context(), "a", "b", o), points[i])
		out := outcomeOf(t, e, "b")
		require.Equal(t, map[string]any{"best": "bestb", "run": "b"}, out.Output, points[i])
		require.Equal(t, []any{"given", strings.Repeat("large ", 300), "quoteb"}, mustInspect(t, e, "b").State["quotes"])
		require.Equal(t, workflow.ForkPoint{Run: "a", Record: 2}, mustInspect(t, e, "b").ForkedFrom)
		require.NoError(t, e.Close(t.Context()))
		if harness.CurrentLevel() == harness.Quick && i+1 < len(copies) {
			continue
		}
		r, err := rescue.Verify(dir)
		require.NoError(t, err)
		require.Empty(t, r.Findings, points[i])
	}
	require.Greater(t, whole, 0)
	require.Less(t, whole, len(copies))
	t.Logf("%d crashes at %d failpoints, %d of them behind the commit", len(copies), len(slices.Compact(slices.Sorted(slices.Values(points)))), whole)
}

// The journal of a fork says where it comes from: a directory that lost its index is repaired
// with that.
func TestForkIsRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		e, err := pawl.Open(t.Context(), dir, pawl.Options{})
		require.NoError(t, err)
		publish(t, e, define(t, oneTask))
		parent := define(t, "name: parent\nstart: sub\nnodes: [{id: sub, subworkflow: {name: one}, input: {n: '1'}}]\n")
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: parent}, nil))
		synctest.Wait()
		require.NoError(t, e.Fork(t.Context(), "a/1.1", "b", pawl.ForkOptions{}))
		require.NoError(t, e.Fork(t.Context(), "b", "c", pawl.ForkOptions{At: 2}))
		require.NoError(t, e.Close(t.Context()))
		require.NoError(t, os.Remove(filepath.Join(dir, "pawl.db")))

		into := filepath.Join(t.TempDir(), "repaired")
		_, err = rescue.Repair(dir, into)
		require.NoError(t, err)
		r, err := rescue.Verify(into)
		require.NoError(t, err)
		require.Empty(t, r.Findings)
		e = open(t, into, pawl.Options{})
		require.Equal(t, workflow.ForkPoint{Run: "a/1.1", Record: 1}, mustInspect(t, e, "b").ForkedFrom)
		require.Equal(t, workflow.ForkPoint{Run: "b", Record: 2}, mustInspect(t, e, "c").ForkedFrom)
		require.NoError(t, e.Fork(t.Context(), "b", "c", pawl.ForkOptions{At: 2}), "the same again")
		require.NoError(t, e.Resume(t.Context(), "b"))
		require.NoError(t, e.Complete(t.Context(), tasksOut(t, e, "b")["work0"], 1))
		require.NoError(t, outcomeOf(t, e, "b").Err())
	})
}

// The values of a fork are sealed as those of every run are.
func TestForkIsSealed(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir, pawl.Options{Codec: testCodec(t, "k"), Executor: keptHandlers})
	driveToGate(t, e, "a")
	require.NoError(t, e.Fork(t.Context(), "a", "b", pawl.ForkOptions{}))
	o := pawl.ForkOptions{Results: []workflow.ForkResult{{Node: "fail", Output: secret("given")}}}
	require.NoError(t, e.Rerun(t.Context(), pawl.Target{Run: "a", Node: "fail"}, "c", o))
	require.NoError(t, e.Vote(t.Context(), pawl.Target{Run: "b", Node: "gate"}, workflow.Ballot{By: "bob", Approved: true}))
	require.Equal(t, secret("in a result"), outcomeOf(t, e, "b").Output["card"])
	require.Contains(t, readAll(t, e, "c"), secret("given"))
	require.NoError(t, e.Close(t.Context()))
	findClassified(t, dir)
}

// A patch before the record holds in the fork, and may be followed by others; one behind it does not.
func TestForkOfAPatchedRun(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, chain)}, nil))
	patch := func(id workflow.RunID, base int, path string, v any) {
		_, err := e.Patch(t.Context(), id, pawl.Patch{Base: base, Ops: []any{map[string]any{"op": "add", "path": path, "value": v}}})
		require.NoError(t, err)
	}
	patch("a", 1, "/nodes/b/output", map[string]any{"output.first": "result"})
	patch("a", 2, "/nodes/b/output", map[string]any{"output.second": "result"})
	require.NoError(t, e.Fork(t.Context(), "a", "plain", pawl.ForkOptions{At: 1}))
	require.NoError(t, e.Fork(t.Context(), "a", "once", pawl.ForkOptions{At: 2}))
	require.NoError(t, e.Fork(t.Context(), "a", "more", pawl.ForkOptions{}))
	patch("more", 3, "/nodes/b/output", map[string]any{"output.third": "result"})
	for id, want := range map[workflow.RunID]string{"plain": "b", "once": "first", "more": "third", "a": "second"} {
		require.NoError(t, e.Complete(t.Context(), tasksOut(t, e, id)["a0"], 1))
		require.NoError(t, e.Complete(t.Context(), tasksOut(t, e, id)["b0"], 2))
		require.Equal(t, map[string]any{want: int64(2)}, outcomeOf(t, e, id).Output, id)
	}
	require.Equal(t, 4, mustInspect(t, e, "more").Revision)
}

// Start and Fork of one id: one of them has it.
func TestForkRacesStart(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	def := define(t, oneTask)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: def}, map[string]any{"n": 1}))
	for i := range 50 {
		id := workflow.RunID("b" + strings.Repeat("x", i))
		var group sync.WaitGroup
		errs := make([]error, 3)
		for k, call := range []func() error{
			func() error {
				return e.Start(t.Context(), workflow.Run{ID: id, Definition: def}, map[string]any{"n": 2})
			},
			func() error { return e.Fork(t.Context(), "a", id, pawl.ForkOptions{}) },
			func() error { return e.Signal(t.Context(), id, workflow.Signal{Name: "s", Early: true}) },
		} {
			group.Go(func() { errs[k] = call() })
		}
		group.Wait()
		require.True(t, (errs[0] == nil) != (errs[1] == nil), "%v, %v", errs[0], errs[1])
		require.ErrorIs(t, errors.Join(errs[:2]...), pawl.ErrRunExists)
		require.Equal(t, errs[1] == nil, mustInspect(t, e, id).ForkedFrom.Run == "a")
		require.Len(t, tasksOut(t, e, id), 1)
		require.NoError(t, e.Complete(t.Context(), tasksOut(t, e, id)["work0"], i))
		require.NoError(t, outcomeOf(t, e, id).Err())
	}
}

// A fork that is made while nothing goes on begins when the directory is opened as usual.
func TestForkInMaintenance(t *testing.T) {
	dir := t.TempDir()
	options := pawl.Options{Executor: pawl.Handlers{"a": named("a"), "b": func(context.Context, pawl.Task) (any, error) { return nil, pawl.TaskError{Code: "broken"} }}}
	e, err := pawl.Open(t.Context(), dir, options)
	require.NoError(t, err)
	out, err := e.Run(t.Context(), workflow.Run{ID: "r", Definition: define(t, chain), Labels: map[string]string{"customer": "7"}}, nil)
	require.NoError(t, err)
	require.Equal(t, workflow.RunFailed, out.Status)
	require.NoError(t, e.Close(t.Context()))

	e, err = pawl.Open(t.Context(), dir, pawl.Options{Maintenance: true})
	require.NoError(t, err)
	require.NoError(t, e.Rerun(t.Context(), pawl.Target{Run: "r", Node: "b"}, "r2", pawl.ForkOptions{}))
	require.Equal(t, workflow.RunRunning, mustInspect(t, e, "r2").Status)
	require.NoError(t, e.Close(t.Context()))

	options.Executor = pawl.Handlers{"b": named("mended")}
	e = open(t, dir, options)
	require.Equal(t, map[string]any{"b": "mended"}, outcomeOf(t, e, "r2").Output)
	require.Equal(t, map[string]string{"customer": "7"}, mustInspect(t, e, "r2").Labels)
}

// The id of the run that was forked is free once that is purged, also for a fork as of a record
// that the run had itself, and for another one later.
func TestForkUnderAnIDOfThePast(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, chain)}, nil))
	require.NoError(t, e.Complete(t.Context(), tasksOut(t, e, "a")["a0"], 1))
	require.ErrorIs(t, e.Fork(t.Context(), "a", "a", pawl.ForkOptions{}), pawl.ErrRunExists)
	purge := func(id workflow.RunID) {
		require.NoError(t, e.Cancel(t.Context(), id, ""))
		require.NoError(t, e.Purge(t.Context(), id))
	}
	for _, o := range []pawl.ForkOptions{{At: 2}, {At: 4, InFlight: workflow.InFlightPark}} {
		require.NoError(t, e.Fork(t.Context(), "a", "b", pawl.ForkOptions{}))
		purge("a")
		for range 2 { // the same again
			require.NoError(t, e.Fork(t.Context(), "b", "a", o))
		}
		require.Equal(t, workflow.ForkPoint{Run: "b", Record: o.At}, mustInspect(t, e, "a").ForkedFrom)
		purge("b")
	}
	require.NoError(t, e.Retry(t.Context(), pawl.Target{Run: "a", Node: "b"}, pawl.RetryOptions{}))
	require.NoError(t, e.Complete(t.Context(), tasksOut(t, e, "a")["b0"], 2))
	require.Equal(t, map[string]any{"b": int64(2)}, outcomeOf(t, e, "a").Output)
}
