package pawl_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/workflow"
)

// crashes makes a fork, with a copy of the directory at every failpoint that is met on the
// way: what a crash there would leave. One record of the fork is put aside in parts.
func crashes(t *testing.T, o pawl.ForkOptions) (points, copies []string) {
	hook, dir := &testhook.Hook{}, harness.Workspace(t)
	e := openWith(t, hook, dir, pawl.Options{IdleAfter: time.Hour})
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
		if err := harness.CopyLive(to, dir); err != nil {
			t.Error(err)
		}
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
	harness.InTurn(t, 4)
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
		r, err := rescue.Verify(t.Context(), dir, rescue.Options{})
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
		_, err = rescue.Repair(t.Context(), dir, into, rescue.Options{})
		require.NoError(t, err)
		r, err := rescue.Verify(t.Context(), into, rescue.Options{})
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

// digest returns the hash of every file below a directory, by path.
func digest(t *testing.T, dir string) map[string][32]byte {
	out := map[string][32]byte{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			var data []byte
			data, err = os.ReadFile(path)
			out[path] = sha256.Sum256(data)
		}
		return err
	}))
	return out
}

// halfway makes a directory with runs that have ended, and runs that wait for
// their last task; all are flushed.
func halfway(t *testing.T) string {
	dir := t.TempDir()
	var waiting sync.WaitGroup
	waiting.Add(4)
	e, err := pawl.Open(t.Context(), dir, pawl.Options{Executor: pawl.Handlers{"work": func(ctx context.Context, task pawl.Task) (any, error) {
		if task.Node == "c" && task.Run[0] == 'w' {
			waiting.Done()
			return nil, pawl.ErrPending
		}
		return double(ctx, task)
	}}})
	require.NoError(t, err)
	for i := range 4 {
		for _, kind := range []string{"ended", "waits"} {
			run := workflow.Run{ID: workflow.RunID(fmt.Sprint(kind, i)), Definition: define(t, threeSteps)}
			require.NoError(t, e.Start(t.Context(), run, map[string]any{"n": i}))
		}
		_, err := e.Wait(t.Context(), workflow.RunID(fmt.Sprint("ended", i)))
		require.NoError(t, err)
	}
	waiting.Wait()
	require.NoError(t, e.Close(t.Context()))
	return dir
}

// A directory that Repair restores opens, and its runs come to their ends: at once
// where nothing is lost, after Resume where something may be. The journals replay.
func TestRepairedRunsFinish(t *testing.T) {
	tests := []struct {
		name      string
		do        func(dir string) error
		suspended bool
	}{
		{"nothing", func(string) error { return nil }, false},
		{"the index is gone", func(dir string) error { return os.Remove(filepath.Join(dir, "pawl.db")) }, true},
		{"the index is cut short", func(dir string) error { return os.Truncate(filepath.Join(dir, "pawl.db"), 5000) }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := halfway(t)
			require.NoError(t, tt.do(dir))
			before := digest(t, dir)
			into := filepath.Join(t.TempDir(), "repaired")
			report, err := rescue.Repair(t.Context(), dir, into, rescue.Options{})
			require.NoError(t, err)
			require.Equal(t, before, digest(t, dir))
			require.Equal(t, 8, report.Runs)
			require.Equal(t, tt.suspended, report.Damage > 0)
			e := open(t, into, pawl.Options{Executor: pawl.Handlers{"work": double}})
			for i := range 4 {
				for _, kind := range []string{"ended", "waits"} {
					id := workflow.RunID(fmt.Sprint(kind, i))
					if tt.suspended && kind == "waits" {
						s, err := e.Inspect(t.Context(), id)
						require.NoError(t, err)
						require.Equal(t, workflow.RunSuspended, s.Status)
						require.Contains(t, s.Failure.Message, "later ones may be lost")
						require.NoError(t, e.Resume(t.Context(), id))
					}
					out, err := e.Wait(t.Context(), id)
					require.NoError(t, err)
					require.Equal(t, map[string]any{"n": int64(8 * i)}, out.Output)
					run := workflow.Run{ID: id, Definition: define(t, threeSteps)}
					require.NoError(t, e.Start(t.Context(), run, map[string]any{"n": i}), "it is the same start")
				}
			}
		})
	}
}

// Without pawl.db the secret of the directory is lost: keys of tasks that are out are
// refused, and the tasks are performed again, under new ones.
func TestKeysOfALostSecretAreRefused(t *testing.T) {
	dir, keys := t.TempDir(), make(chan pawl.Key, 1)
	pending := pawl.Options{Executor: pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
		keys <- task.Key
		return nil, pawl.ErrPending
	}}}
	e := open(t, dir, pending)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, oneTask)}, map[string]int{"n": 1}))
	old := <-keys
	require.NoError(t, e.Close(t.Context()))
	require.NoError(t, os.Remove(filepath.Join(dir, "pawl.db")))
	into := filepath.Join(t.TempDir(), "repaired")
	_, err := rescue.Repair(t.Context(), dir, into, rescue.Options{})
	require.NoError(t, err)
	e = open(t, into, pending)
	require.ErrorIs(t, e.Complete(t.Context(), old, 7), pawl.ErrStale)
	require.NoError(t, e.Resume(t.Context(), "r"))
	again := <-keys
	require.NotEqual(t, old, again)
	require.ErrorIs(t, e.Complete(t.Context(), old, 7), pawl.ErrStale)
	require.NoError(t, e.Complete(t.Context(), again, 8))
	out, err := e.Wait(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"n": int64(8)}, out.Output)
}

// Every text of a host is stored: as UTF-8, and no more than fits.
func TestWordsThatCannotBeStored(t *testing.T) {
	long := strings.Repeat("\xff\u00e9", 1<<20)
	for name, cause := range map[string]error{
		"bytes":   errors.New("a\xff\x00b"),
		"long":    errors.New(long),
		"code":    pawl.TaskError{Code: long, Message: "m\xc3"},
		"pointer": &pawl.TaskError{Code: "mine\xff", Message: long},
	} {
		t.Run(name, func(t *testing.T) {
			e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{
				"returns": func(context.Context, pawl.Task) (any, error) { return nil, cause },
				"panics":  func(context.Context, pawl.Task) (any, error) { panic(cause) },
			}})
			for _, task := range []string{"returns", "panics"} {
				d := &workflow.Definition{Name: task, Start: "a", Nodes: []workflow.Node{{ID: "a", Task: task}}}
				out, err := e.Run(t.Context(), workflow.Run{ID: workflow.RunID(task), Definition: d}, nil)
				require.NoError(t, err)
				require.Equal(t, workflow.RunFailed, out.Status)
				for _, text := range []string{out.Failure.Code, out.Failure.Message} {
					require.True(t, utf8.ValidString(text))
					require.LessOrEqual(t, len(text), 16<<10)
				}
				require.True(t, task != "returns" || name != "pointer" || out.Failure.Code == "mine\uFFFD", out.Failure.Code)
			}
		})
	}
}

// So is the reason of a cancel.
func TestReasonThatCannotBeStored(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, oneTask)}, map[string]int{"n": 1}))
	require.NoError(t, e.Cancel(t.Context(), "a", "why\xff"))
	out, err := e.Wait(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, "why\uFFFD", out.Failure.Message)
}

// A context that is done before the call is named, and nothing is done.
func TestContextDoneBeforeTheCall(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": double}})
	gone := errors.New("the caller went away")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	for i := range 20 {
		run := workflow.Run{ID: workflow.RunID(fmt.Sprint(i)), Definition: define(t, oneTask)}
		err := e.Start(ctx, run, map[string]int{"n": 1})
		require.ErrorIs(t, err, gone)
		require.NotErrorIs(t, err, pawl.ErrBusy)
		_, err = e.Inspect(t.Context(), run.ID)
		require.ErrorIs(t, err, pawl.ErrRunNotFound)
	}
	run := workflow.Run{ID: "a", Definition: define(t, oneTask)}
	_, err := e.Run(t.Context(), run, map[string]int{"n": 1})
	require.NoError(t, err)
	for _, err := range e.Events(ctx, run.ID, pawl.EventsOptions{}) {
		require.ErrorIs(t, err, gone)
	}
}

func TestNilArguments(t *testing.T) {
	var none context.Context
	calls := pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
		_, opened := task.Open(none, blob.Ref{Hash: "sha256:" + strings.Repeat("0", 64)})
		_, own := task.Once(none, "", func(context.Context) (any, error) { return nil, nil })
		_, keyed := task.Once(none, "key", func(context.Context) (any, error) { return nil, nil })
		return []bool{errors.Is(opened, pawl.ErrInvalid), errors.Is(own, pawl.ErrInvalid), errors.Is(keyed, pawl.ErrInvalid)}, nil
	}}
	e := open(t, t.TempDir(), pawl.Options{Executor: calls})
	_, err := e.Publish(t.Context(), nil)
	require.ErrorIs(t, err, pawl.ErrInvalid)
	require.NoError(t, pawl.Permanent(nil))
	run := workflow.Run{ID: "a", Definition: define(t, "name: n\nstart: a\nnodes: [{id: a, task: work, output: {output.invalid: result}}]\n")}
	sim, err := e.Simulate(t.Context(), pawl.OfStart{Run: run})
	require.NoError(t, err)
	require.NoError(t, sim.Play(t.Context(), calls))
	out, err := e.Run(t.Context(), run, nil)
	require.NoError(t, err)
	for _, output := range []map[string]any{sim.Snapshot().Output, out.Output} {
		require.Equal(t, map[string]any{"invalid": []any{true, true, true}}, output)
	}
}

// Permanent counts more than what it wraps says of retries, and leaves the rest of that as it is.
func TestPermanentErrors(t *testing.T) {
	var calls atomic.Int32
	var fails error
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) {
		calls.Add(1)
		return nil, fails
	}}})
	d := define(t, "name: p\nstart: a\nnodes: [{id: a, task: work, retry: {maxAttempts: 2, initialInterval: 1ms}}]\n")
	retryable := pawl.TaskError{Code: "down", Message: "it is", Retryable: true, RetryAfter: time.Hour}
	for name, c := range map[string]struct {
		err  error
		code string
	}{
		"value":   {retryable, "down"},
		"pointer": {&retryable, "down"},
		"wrapped": {fmt.Errorf("ask: %w", retryable), "down"},
		"blob":    {&blob.Error{Hash: "sha256:00", Err: io.ErrUnexpectedEOF}, workflow.CodeError},
		"plain":   {io.ErrUnexpectedEOF, workflow.CodeError},
	} {
		calls.Store(0)
		require.False(t, pawl.IsPermanent(c.err), name)
		fails = fmt.Errorf("give up: %w", pawl.Permanent(c.err))
		require.True(t, pawl.IsPermanent(fails), name)
		out, err := e.Run(t.Context(), workflow.Run{ID: workflow.RunID(name), Definition: d}, nil)
		require.NoError(t, err)
		require.Equal(t, c.code, out.Failure.Code, name)
		require.Equal(t, int32(1), calls.Load(), name)
	}
}

// Every call on a closed engine says so, also those that ask the store first.
func TestClosedEngineSaysSo(t *testing.T) {
	e, err := pawl.Open(t.Context(), replays.Dir(t), pawl.Options{})
	require.NoError(t, err)
	d := define(t, oneTask)
	publish(t, e, d)
	require.NoError(t, e.Close(t.Context()))
	_, err = e.Publish(t.Context(), d)
	require.ErrorIs(t, err, pawl.ErrClosed)
	_, err = e.Publish(t.Context(), define(t, oneTask+"version: 9\n"))
	require.ErrorIs(t, err, pawl.ErrClosed)
	require.ErrorIs(t, e.Start(t.Context(), workflow.Run{ID: "b", Workflow: "one"}, nil), pawl.ErrClosed)
	for _, err := range e.Events(t.Context(), "a", pawl.EventsOptions{Follow: true}) {
		require.ErrorIs(t, err, pawl.ErrClosed)
	}
}

func TestMetadataIsBounded(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) {
		return pawl.Result{Metadata: map[string]any{"log": strings.Repeat("x", 2<<20)}}, nil
	}}})
	out, err := e.Run(t.Context(), workflow.Run{ID: "a", Definition: define(t, oneTask)}, map[string]int{"n": 1})
	require.NoError(t, err)
	require.Equal(t, workflow.CodeInvalidResult, out.Failure.Code)
	require.Contains(t, out.Failure.Message, "metadata")
}

// The executor of a branch is told that it is no longer wanted, by its context,
// once the join that cancels the rest has fired: the patterns 29, 32 and 35. With
// remaining: ignore it is left alone: 30 and 34.
func TestJoinsTellTheExecutor(t *testing.T) {
	fans := map[string]string{"29, 32": `spawnCount: 4`, "35": `foreach: {collection: "[0, 1, 2, 3]"}`}
	for name, fan := range fans {
		for remaining, want := range map[string]int{"cancel": 2, "ignore": 0} {
			t.Run(name+" "+remaining, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var mu sync.Mutex
					told := map[int]error{}
					left := make(chan struct{})
					e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"quote": func(ctx context.Context, task pawl.Task) (any, error) {
						if task.Branch.Index < 2 {
							return nil, nil
						}
						select {
						case <-ctx.Done():
							mu.Lock()
							defer mu.Unlock()
							told[task.Branch.Index] = context.Cause(ctx)
							return nil, ctx.Err()
						case <-left:
							return nil, nil
						}
					}}})
					d := define(t, fmt.Sprintf(`
name: w
start: s
nodes: [{id: s}, {id: a, task: quote}, {id: z}, {id: last, wait: {event: go}}]
transitions:
  - {from: s, to: a, %s, siblingGroup: g}
  - {from: a, to: z, synchronization: {siblingGroup: g, strategy: {mOfN: 2}, remaining: %s}}
  - {from: z, to: last}
`, fan, remaining))
					require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: d}, nil))
					synctest.Wait()
					mu.Lock()
					require.Len(t, told, want)
					for _, cause := range told {
						require.ErrorContains(t, cause, "no longer wanted")
					}
					mu.Unlock()
					close(left)
					require.NoError(t, e.Signal(t.Context(), "r", workflow.Signal{Name: "go"}))
					out, err := e.Wait(t.Context(), "r")
					require.NoError(t, err)
					require.NoError(t, out.Err())
				})
			})
		}
	}
}

// A scarceStore has no descriptor for the first puts and looks.
type scarceStore struct {
	blob.Store
	puts, looks atomic.Int32
}

func (s *scarceStore) Put(ctx context.Context, r io.Reader) (string, int64, error) {
	if s.puts.Add(-1) >= 0 {
		return "", 0, &blob.Error{Err: &os.PathError{Op: "openat", Path: "tmp/put", Err: syscall.EMFILE}, Detail: "put"}
	}
	return s.Store.Put(ctx, r)
}

func (s *scarceStore) Stat(ctx context.Context, hash string) (blob.Info, error) {
	if s.looks.Add(-1) >= 0 {
		return blob.Info{}, &blob.Error{Hash: hash, Err: &os.PathError{Op: "openat", Path: "4f", Err: syscall.ENFILE}}
	}
	return s.Store.Stat(ctx, hash)
}

// Too many open files pass. A task that meets them, in its own code, in the store of blobs
// or when its result is looked at, is called again, without a policy for retries.
func TestTasksWaitForDescriptors(t *testing.T) {
	scarce := fmt.Errorf("read the list: %w", &os.PathError{Op: "open", Path: "list", Err: syscall.EMFILE})
	for name, test := range map[string]struct {
		puts, looks, calls int32
		fail               error
		want               string // code of the failure
	}{
		"put":       {puts: 3, calls: 4},
		"look":      {looks: 2, calls: 3},
		"own":       {fail: scarce, calls: 2},
		"permanent": {fail: pawl.Permanent(scarce), calls: 1, want: workflow.CodeError},
		"task":      {fail: fmt.Errorf("%w: %w", pawl.TaskError{Code: "no_list", Message: "none"}, scarce), calls: 1, want: "no_list"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				files, err := blob.OpenFiles(t.TempDir(), blob.Options{})
				require.NoError(t, err)
				defer files.Close()
				store := &scarceStore{Store: files}
				store.puts.Store(test.puts)
				store.looks.Store(test.looks)
				calls := int32(0)
				e := open(t, t.TempDir(), pawl.Options{Blobs: store, Executor: pawl.Handlers{"w": func(ctx context.Context, task pawl.Task) (any, error) {
					if calls++; calls == 1 && test.fail != nil {
						return nil, test.fail
					}
					return task.Put(ctx, strings.NewReader("x"), "")
				}}})
				began := time.Now()
				out, err := e.Run(t.Context(), workflow.Run{ID: "a", Definition: define(t, "name: one\nstart: w\nnodes: [{id: w, task: w}]\n")}, nil)
				require.NoError(t, err)
				require.Equal(t, test.calls, calls)
				if test.want != "" {
					require.Equal(t, test.want, out.Failure.Code)
					return
				}
				require.NoError(t, out.Err())
				require.Equal(t, time.Duration(calls-1)*5*time.Second, time.Since(began).Truncate(time.Second))
			})
		})
	}
}
