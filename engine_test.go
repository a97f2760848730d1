package pawl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/workflow"
)

// define parses and panics: for definitions of tests.
func define(t testing.TB, text string) *workflow.Definition {
	t.Helper()
	d, err := workflow.ParseYAML([]byte(text))
	require.NoError(t, err)
	return d
}

// publish publishes a definition.
func publish(t testing.TB, e *pawl.Engine, d *workflow.Definition) {
	t.Helper()
	_, err := e.Publish(t.Context(), d)
	require.NoError(t, err)
}

// open opens an engine that is closed with the test.
func open(t testing.TB, dir string, o pawl.Options) *pawl.Engine {
	t.Helper()
	return openWith(t, nil, dir, o)
}

// openWith is open for an engine with a hook.
func openWith(t testing.TB, hook *testhook.Hook, dir string, o pawl.Options) *pawl.Engine {
	t.Helper()
	e, err := pawl.Open(testhook.With(t.Context(), hook), dir, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, e.Close(context.Background()))
		_, err := replays.Check(dir)
		require.NoError(t, err)
	})
	return e
}

const oneTask = `
name: one
start: work
nodes: [{id: work, task: work, input: {n: input.n}, output: {output.n: result}}]
`

func double(_ context.Context, t pawl.Task) (any, error) {
	var in struct{ N int }
	if err := t.Bind(&in); err != nil {
		return nil, err
	}
	return 2 * in.N, nil
}

func TestRunCompletes(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": double}})
	out, err := e.Run(t.Context(), workflow.Run{ID: "a", Definition: define(t, oneTask)}, map[string]int{"n": 21})
	require.NoError(t, err)
	require.NoError(t, out.Err())
	require.Equal(t, map[string]any{"n": int64(42)}, out.Output)
}

func TestStartIsIdempotent(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": double}})
	run := workflow.Run{ID: "a", Definition: define(t, oneTask)}
	for range 3 {
		require.NoError(t, e.Start(t.Context(), run, map[string]any{"n": 1}))
	}
	_, err := e.Wait(t.Context(), "a")
	require.NoError(t, err)
	require.NoError(t, e.Start(t.Context(), run, map[string]any{"n": 1}), "also when it has ended")
	require.ErrorIs(t, e.Start(t.Context(), run, map[string]any{"n": 2}), pawl.ErrRunExists)
	other := workflow.Run{ID: "a", Definition: define(t, oneTask+"version: 2\n")}
	require.ErrorIs(t, e.Start(t.Context(), other, map[string]any{"n": 1}), pawl.ErrRunExists)
}

func TestConcurrentStartsMakeOneRun(t *testing.T) {
	var calls atomic.Int32
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": func(ctx context.Context, task pawl.Task) (any, error) {
		calls.Add(1)
		return double(ctx, task)
	}}})
	run := workflow.Run{ID: "a", Definition: define(t, oneTask)}
	var group sync.WaitGroup
	var started, refused atomic.Int32
	for i := range 50 {
		group.Go(func() {
			switch err := e.Start(t.Context(), run, map[string]any{"n": i % 2}); {
			case err == nil:
				started.Add(1)
			case errors.Is(err, pawl.ErrRunExists):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	group.Wait()
	require.EqualValues(t, 25, started.Load())
	require.EqualValues(t, 25, refused.Load())
	_, err := e.Wait(t.Context(), "a")
	require.NoError(t, err)
	require.EqualValues(t, 1, calls.Load())
}

func TestRunGoesOnAfterReopen(t *testing.T) {
	dir := t.TempDir()
	keys := make(chan pawl.Key, 2)
	pending := pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
		keys <- task.Key
		return nil, pawl.ErrPending
	}}
	e, err := pawl.Open(t.Context(), dir, pawl.Options{Executor: pending})
	require.NoError(t, err)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, oneTask)}, map[string]any{"n": 1}))
	first := <-keys
	require.NoError(t, e.Close(t.Context()))

	e = open(t, dir, pawl.Options{Executor: pending})
	second := <-keys
	require.Equal(t, first, second, "a re-dispatch carries the stored key")
	require.NoError(t, e.Complete(t.Context(), second, "done"))
	require.NoError(t, e.Complete(t.Context(), second, "done again"), "a duplicate is answered as done")
	out, err := e.Wait(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"n": "done"}, out.Output)
	require.NoError(t, e.Complete(t.Context(), second, "late"), "also when the run has ended")
	require.ErrorIs(t, e.Fail(t.Context(), second, errors.New("x")), pawl.ErrStale)
}

func TestForeignKeysAreStale(t *testing.T) {
	keys := make(chan pawl.Key, 2)
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"*": func(_ context.Context, task pawl.Task) (any, error) {
		keys <- task.Key
		return nil, pawl.ErrPending
	}}})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, oneTask)}, map[string]any{"n": 1}))
	key := string(<-keys)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "b", Definition: define(t, oneTask)}, map[string]any{"n": 1}))
	<-keys // its task is out, and who has the key of another knows all of its key but the MAC
	for _, k := range []string{"b" + key[1:], "a#9.1.0000000000000001" + key[strings.LastIndexByte(key, '.'):], "a#1.2" + key[len("a#1.1"):]} {
		require.ErrorIs(t, e.Complete(t.Context(), pawl.Key(k), 1), pawl.ErrStale, k)
		require.ErrorIs(t, e.Fail(t.Context(), pawl.Key(k), errors.New("forged")), pawl.ErrStale, k)
		require.ErrorIs(t, e.Heartbeat(t.Context(), pawl.Key(k), 1), pawl.ErrStale, k)
	}
	for _, k := range []string{"", "a", "#1.1.1", "a#1.1", "a#x.1.1", "a#1.1.zz", "a#1.1.0000000000000001"} {
		require.ErrorIs(t, e.Complete(t.Context(), pawl.Key(k), 1), pawl.ErrInvalid, k)
	}
	for _, id := range []workflow.RunID{"a", "b"} {
		snap, err := e.Inspect(t.Context(), id)
		require.NoError(t, err)
		require.EqualValues(t, 1, snap.Seq, "nothing was journaled of run %q", id)
	}
}

func TestHandlerFaultsFailTheAttempt(t *testing.T) {
	cases := map[string]struct {
		handler func(context.Context, pawl.Task) (any, error)
		code    string
	}{
		"panic":       {func(context.Context, pawl.Task) (any, error) { panic("boom") }, "panic"},
		"goexit":      {func(context.Context, pawl.Task) (any, error) { runtime.Goexit(); return nil, nil }, "panic"},
		"plain error": {func(context.Context, pawl.Task) (any, error) { return nil, errors.New("no") }, "error"},
		"own code":    {func(context.Context, pawl.Task) (any, error) { return nil, pawl.TaskError{Code: "mine"} }, "mine"},
		"wrapped code": {func(context.Context, pawl.Task) (any, error) {
			return nil, fmt.Errorf("w: %w", pawl.TaskError{Code: "mine"})
		}, "mine"},
		"not JSON":  {func(context.Context, pawl.Task) (any, error) { return make(chan int), nil }, "invalid_result"},
		"bad UTF-8": {func(context.Context, pawl.Task) (any, error) { return "\xff", nil }, "invalid_result"},
		"too large": {func(context.Context, pawl.Task) (any, error) { return string(make([]byte, 1<<20)), nil }, "result_too_large"},
	}
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": func(ctx context.Context, task pawl.Task) (any, error) {
		return cases[string(task.Run)].handler(ctx, task)
	}}})
	for name, c := range cases {
		out, err := e.Run(t.Context(), workflow.Run{ID: workflow.RunID(name), Definition: define(t, oneTask)}, map[string]any{"n": 1})
		require.NoError(t, err, name)
		require.Equal(t, workflow.RunFailed, out.Status, name)
		require.Equal(t, c.code, out.Failure.Code, "%s: %s", name, out.Failure.Message)
	}
	unknown := define(t, "name: u\nstart: x\nnodes: [{id: x, task: nobody}]\n")
	out, err := e.Run(t.Context(), workflow.Run{ID: "unknown", Definition: unknown}, nil)
	require.NoError(t, err)
	require.Equal(t, "unknown_task", out.Failure.Code)
	require.ErrorContains(t, out.Err(), "nobody")
}

func TestRetriesAreDurableAndTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		def := define(t, `
name: retry
start: work
nodes:
  - {id: work, task: work, retry: {maxAttempts: 4, initialInterval: 10s, backoffCoefficient: 3}, output: {output.attempt: result}}
`)
		var calls []time.Duration
		begin := time.Now()
		e := open(t, t.TempDir(), pawl.Options{IdleAfter: 2 * time.Second, Executor: pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
			calls = append(calls, time.Since(begin))
			if task.Attempt < 4 {
				return nil, errors.New("busy")
			}
			return task.Attempt, nil
		}}})
		out, err := e.Run(t.Context(), workflow.Run{ID: "a", Definition: def}, nil)
		require.NoError(t, err)
		require.Equal(t, map[string]any{"attempt": int64(4)}, out.Output)
		require.Equal(t, []time.Duration{0, 10 * time.Second, 40 * time.Second, 130 * time.Second}, calls)
	})
}

func TestTimeoutCancelsTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		def := define(t, "name: slow\nstart: w\nnodes: [{id: w, task: w, timeout: 5s}]\n")
		told := make(chan struct{})
		e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"w": func(ctx context.Context, _ pawl.Task) (any, error) {
			<-ctx.Done()
			close(told)
			return "late", nil
		}}})
		begin := time.Now()
		out, err := e.Run(t.Context(), workflow.Run{ID: "a", Definition: def}, nil)
		require.NoError(t, err)
		require.Equal(t, "timeout", out.Failure.Code)
		require.Equal(t, 5*time.Second, time.Since(begin))
		<-told
	})
}

func TestIdleRunsLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		def := define(t, "name: sleep\nstart: w\nnodes: [{id: w, wait: {for: 100h}}]\n")
		e := open(t, t.TempDir(), pawl.Options{IdleAfter: time.Second})
		synctest.Wait()
		before := ownGoroutines(t)
		for i := range 20 {
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("r", i)), Definition: def}, nil))
		}
		require.Greater(t, ownGoroutines(t), before)
		begin := time.Now()
		<-time.After(10 * time.Second)
		synctest.Wait()
		require.LessOrEqual(t, ownGoroutines(t), before)
		for i := range 20 {
			out, err := e.Wait(t.Context(), workflow.RunID(fmt.Sprint("r", i)))
			require.NoError(t, err)
			require.NoError(t, out.Err())
		}
		require.InDelta(t, 100*time.Hour, time.Since(begin), float64(time.Second))
	})
}

// ownGoroutines counts the goroutines that run code of this module. The runtime's own
// goroutines, which run finalizers of things that were open before, come and go.
func ownGoroutines(t *testing.T) (n int) {
	t.Helper()
	var stacks bytes.Buffer
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&stacks, 2))
	for _, stack := range strings.Split(stacks.String(), "\n\n") {
		if strings.Contains(stack, "github.com/pawl-run/pawl") {
			n++
		}
	}
	return n
}

func TestCancelWithdrawsTasks(t *testing.T) {
	def := define(t, `
name: wide
start: split
nodes: [{id: split}, {id: w, task: w}]
transitions: [{from: split, to: w, spawnCount: 5}]
`)
	var told sync.WaitGroup
	told.Add(5)
	running := make(chan struct{}, 5)
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"w": func(ctx context.Context, _ pawl.Task) (any, error) {
		running <- struct{}{}
		<-ctx.Done()
		told.Done()
		return nil, ctx.Err()
	}}})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: def}, nil))
	for range 5 {
		<-running
	}
	require.NoError(t, e.Cancel(t.Context(), "a", "enough"))
	told.Wait()
	out, err := e.Wait(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, workflow.RunCancelled, out.Status)
	require.Equal(t, "enough", out.Failure.Message)
	require.NoError(t, e.Cancel(t.Context(), "a", "again"), "cancel of a run that has ended is no error")
	require.ErrorIs(t, e.Cancel(t.Context(), "nobody", ""), pawl.ErrRunNotFound)
}

func TestClosedEngineRefuses(t *testing.T) {
	dir := t.TempDir()
	e, err := pawl.Open(t.Context(), dir, pawl.Options{})
	require.NoError(t, err)
	_, err = pawl.Open(t.Context(), dir, pawl.Options{LockWait: -1})
	require.ErrorIs(t, err, pawl.ErrLocked)
	def := define(t, oneTask)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: def}, map[string]any{"n": 1}))
	waiting := make(chan error)
	go func() {
		_, err := e.Wait(context.Background(), "a")
		waiting <- err
	}()
	require.NoError(t, e.Close(t.Context()))
	require.NoError(t, e.Close(t.Context()), "twice")
	require.ErrorIs(t, <-waiting, pawl.ErrClosed)
	require.ErrorIs(t, e.Start(t.Context(), workflow.Run{ID: "b", Definition: def}, nil), pawl.ErrClosed)
	require.ErrorIs(t, e.Cancel(t.Context(), "a", ""), pawl.ErrClosed)
	_, err = e.Wait(t.Context(), "a")
	require.ErrorIs(t, err, pawl.ErrClosed)
	_, err = e.Inspect(t.Context(), "a")
	require.ErrorIs(t, err, pawl.ErrClosed)
}

func TestPublishedDefinitions(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": double}})
	d := define(t, oneTask)
	publish(t, e, d)
	publish(t, e, d)
	_, err := e.Publish(t.Context(), define(t, oneTask+"timeout: 1h\n"))
	require.ErrorIs(t, err, pawl.ErrPublished)
	out, err := e.Run(t.Context(), workflow.Run{ID: "a", Workflow: "one"}, map[string]any{"n": 2})
	require.NoError(t, err)
	require.NoError(t, out.Err())
	require.ErrorIs(t, e.Start(t.Context(), workflow.Run{ID: "b", Workflow: "two"}, nil), pawl.ErrNotPublished)
	require.ErrorIs(t, e.Start(t.Context(), workflow.Run{ID: "b", Workflow: "one", Version: 9}, nil), pawl.ErrNotPublished)
}

func TestEventsFollowARun(t *testing.T) {
	release := make(chan struct{})
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": func(ctx context.Context, task pawl.Task) (any, error) {
		<-release
		return double(ctx, task)
	}}})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, oneTask)}, map[string]any{"n": 2}))
	var types []string
	for ev, err := range e.Events(t.Context(), "a", pawl.EventsOptions{Follow: true}) {
		require.NoError(t, err)
		require.EqualValues(t, len(types)+1, ev.Seq)
		types = append(types, string(ev.Type))
		if ev.Type == workflow.EventTaskDispatched {
			close(release)
		}
	}
	require.Equal(t, []string{"workflow.started", "token.created", "task.dispatched", "task.completed", "token.completed", "workflow.completed"}, types)
	var again []string
	for ev, err := range e.Events(t.Context(), "a", pawl.EventsOptions{After: 4}) {
		require.NoError(t, err)
		again = append(again, string(ev.Type))
	}
	require.Equal(t, types[4:], again)
}
