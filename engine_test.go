package pawl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
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

// A start of a pinned version, as generated code makes it, is another one than that of an older version, and is accepted without the version.
func TestRepeatAStartOfAnOlderVersion(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": double}})
	publish(t, e, define(t, oneTask))
	run, input := workflow.Run{ID: "a", Workflow: "one", Version: 1}, map[string]int{"n": 4}
	require.NoError(t, e.Start(t.Context(), run, input))
	publish(t, e, define(t, oneTask+"version: 2\n"))
	run.Version = 2 // a deployment between the start and its repetition
	require.ErrorIs(t, e.Start(t.Context(), run, input), pawl.ErrRunExists)
	run.Version = 0
	require.NoError(t, e.Start(t.Context(), run, input))
	require.ErrorIs(t, e.Start(t.Context(), run, map[string]int{"n": 5}), pawl.ErrRunExists)
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

	run.MetaLimits = map[string]float64{"cost": 0.1}
	require.ErrorIs(t, e.Start(t.Context(), run, map[string]any{"n": 1}), pawl.ErrRunExists)
	run.ID, run.MetaLimits["rows"] = "b", 5
	for range 3 {
		require.NoError(t, e.Start(t.Context(), run, map[string]any{"n": 1}))
	}
	for _, limits := range []map[string]float64{nil, {"cost": 0.1}, {"cost": 0.1, "rows": 6}} {
		run.MetaLimits = limits
		require.ErrorIs(t, e.Start(t.Context(), run, map[string]any{"n": 1}), pawl.ErrRunExists)
	}
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

// One of several runs that are started under one id begins as it was asked for, and the others are refused, whichever comes first and
// whatever is refused meanwhile.
func TestConcurrentStartsOfDifferentRuns(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": double}})
	def := define(t, oneTask)
	strict := define(t, oneTask+"input: {schema: {type: object, properties: {n: {type: string}}}}\n")
	for i := range harness.Figure(50, 300, 5_000) {
		id := workflow.RunID(fmt.Sprint("r", i))
		var group sync.WaitGroup
		var started atomic.Int32
		for n := range 3 {
			group.Go(func() {
				switch err := e.Start(t.Context(), workflow.Run{ID: id, Definition: def, Labels: map[string]string{"n": fmt.Sprint(n)}}, map[string]any{"n": n}); {
				case err == nil:
					started.Add(1)
				case !errors.Is(err, pawl.ErrRunExists):
					t.Error(err)
				}
			})
		}
		group.Go(func() {
			if err := e.Start(t.Context(), workflow.Run{ID: id, Definition: strict}, map[string]any{"n": 1}); err == nil {
				t.Error("the input is no text")
			}
		})
		group.Wait()
		require.EqualValues(t, 1, started.Load())
		out, err := e.Wait(t.Context(), id)
		require.NoError(t, err)
		s, err := e.Summary(t.Context(), id)
		require.NoError(t, err)
		n, err := strconv.Atoi(s.Labels["n"])
		require.NoError(t, err)
		require.Equal(t, map[string]any{"n": int64(2 * n)}, out.Output)
	}
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
	<-keys // its task is out, and the holder of another key knows all of its key but the MAC
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

// TestMain fails if a test leaves a goroutine behind.
func TestMain(m *testing.M) { harness.VerifyTestMain(m) }

// A client repeats its Start across a deploy: the run that exists keeps its version, also
// after a restart, and whatever the new version would say to the input.
func TestStartWithoutAVersionIsRepeatedAcrossADeploy(t *testing.T) {
	const limits = "\nlimits: {payloadBytes: 8}\nversion: 2\n"
	ctx, dir := t.Context(), t.TempDir()
	o := pawl.Options{Executor: pawl.Handlers{"work": double}}
	run, input := workflow.Run{ID: "a", Workflow: "one"}, map[string]any{"n": 1_000_000}
	e, err := pawl.Open(ctx, dir, o)
	require.NoError(t, err)
	publish(t, e, define(t, oneTask))
	out, err := e.Run(ctx, run, input)
	require.NoError(t, err)
	publish(t, e, define(t, oneTask+limits))
	require.NoError(t, e.Start(ctx, run, input))
	require.NoError(t, e.Close(ctx))

	e = open(t, dir, o)
	require.NoError(t, e.Start(ctx, run, input))
	again, err := e.Run(ctx, run, input)
	require.NoError(t, err)
	require.Equal(t, out, again)
	version := run
	version.Version = 1
	require.NoError(t, e.Start(ctx, version, input))

	require.ErrorContains(t, e.Start(ctx, run, map[string]any{"n": 2}), `run "a" was started with another input`)
	version.Version = 2
	require.ErrorIs(t, e.Start(ctx, version, map[string]any{"n": 2}), pawl.ErrRunExists, "a version that is named is meant")
	publish(t, e, define(t, "name: two\n"+oneTask[len("\nname: one\n"):]))
	run.Workflow = "two"
	require.ErrorContains(t, e.Start(ctx, run, input), `run "a" executes one version 1, another definition`)
}

// A run that was given its definition executes none of the published versions.
func TestStartByNameOfARunThatWasGivenItsDefinition(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": double}})
	publish(t, e, define(t, oneTask+"version: 2\n"))
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, oneTask)}, nil))
	require.ErrorIs(t, e.Start(t.Context(), workflow.Run{ID: "a", Workflow: "one"}, nil), pawl.ErrRunExists)
}

func TestOpenWantsAFolderOfItsOwn(t *testing.T) {
	_, err := pawl.Open(t.Context(), "", pawl.Options{})
	require.ErrorIs(t, err, pawl.ErrInvalid)
	require.ErrorContains(t, err, "the path of the engine directory is empty")
	_, err = pawl.Open(t.Context(), ".", pawl.Options{})
	require.ErrorIs(t, err, pawl.ErrForeign)
	require.NoFileExists(t, "LOCK")
}

// writer has a task that returns 20 KB, others each time.
func writer(written *atomic.Int64) pawl.Handlers {
	return pawl.Handlers{"write": func(context.Context, pawl.Task) (any, error) {
		n := written.Add(1) // perhaps while the run is ended
		return strings.Repeat(string(rune('a'+n%26)), 20_000), nil
	}}
}

// A run that writes more than it may fails, and says so.
func TestTheBytesOfARunAreBounded(t *testing.T) {
	var written atomic.Int64
	e := open(t, t.TempDir(), pawl.Options{Executor: writer(&written)})
	out, err := e.Run(t.Context(), workflow.Run{ID: "r", Definition: define(t, `
name: writes
start: write
limits: {runBytes: 200000}
nodes: [{id: write, task: write, output: {state.text: result}}]
transitions: [{from: write, to: write, loop: {maxIterations: 1000}}]
`)}, nil)
	require.NoError(t, err)
	require.Equal(t, workflow.RunFailed, out.Status)
	require.Equal(t, workflow.CodeLimit, out.Failure.Code)
	require.Regexp(t, `^limit runBytes: the run takes 2\d{5} bytes on the disk, at most 200000: use a blob for what is large$`, out.Failure.Message)
	require.Greater(t, written.Load(), int64(3))
	require.Less(t, written.Load(), int64(12))
}

// The bytes that a run has written before a restart count.
func TestTheBytesOfARunCountAfterARestart(t *testing.T) {
	var written atomic.Int64
	dir := t.TempDir()
	e := open(t, dir, pawl.Options{Executor: writer(&written)})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, `
name: writes
start: write
limits: {runBytes: 55000}
nodes: [{id: write, task: write, output: {state.text: result}}, {id: wait, wait: {event: go}}, {id: again, task: write}, {id: last, wait: {for: 1s}}]
transitions: [{from: write, to: wait}, {from: wait, to: again}, {from: again, to: last}]
`)}, nil))
	awaitEvent(t, e, "r", workflow.EventTokenWaiting)
	require.NoError(t, e.Close(t.Context()))
	require.EqualValues(t, 1, written.Load())
	e = open(t, dir, pawl.Options{Executor: writer(&written)})
	require.NoError(t, e.Signal(t.Context(), "r", workflow.Signal{Name: "go"}))
	out, err := e.Wait(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, workflow.RunFailed, out.Status)
	require.Equal(t, workflow.CodeLimit, out.Failure.Code)
	require.EqualValues(t, 2, written.Load())
}

// Signals beyond what a run may keep are refused, also after a restart; the signals
// that were taken are all there.
func TestTheBytesOfKeptSignalsAreBounded(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir, pawl.Options{Executor: pawl.Handlers{}})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, `
name: collects
start: first
limits: {signalBytes: 3000}
nodes: [{id: first, wait: {event: first}}, {id: next, wait: {event: more}, output: {state.last: result.payload}}]
transitions: [{from: first, to: next}, {from: next, to: next, loop: {maxIterations: 1}}]
output: {mapping: {last: state.last}}
`)}, nil))
	send := func(name, text string) error {
		return e.Signal(t.Context(), "r", workflow.Signal{Name: name, Payload: strings.Repeat(text, 1_000)})
	}
	require.NoError(t, send("more", "a"))
	require.NoError(t, send("more", "b"))
	refused := func() {
		t.Helper()
		var limit *workflow.LimitError
		require.ErrorAs(t, send("more", "c"), &limit)
		require.Equal(t, &workflow.LimitError{Limit: limits.SignalBytes, Max: 3000, Got: 3006}, limit)
		require.Equal(t, 413, pawl.HTTPStatus(limit))
	}
	refused()
	require.NoError(t, e.Close(t.Context()))
	e = open(t, dir, pawl.Options{Executor: pawl.Handlers{}})
	refused()
	require.NoError(t, send("first", "d"), "somebody waits for it: it is not kept")
	out, err := e.Wait(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"last": strings.Repeat("b", 1_000)}, out.Output)
}

// A run that waits in memory has one goroutine, and its stack has become small again when
// Go's collector has seen it.
func TestAWaitingRunHasASmallStack(t *testing.T) {
	if harness.Raced {
		t.Skip("under the race detector frames are larger")
	}
	e := open(t, t.TempDir(), pawl.Options{IdleAfter: time.Hour})
	def := &workflow.Definition{Name: "waits", Start: "wait", Nodes: []workflow.Node{{ID: "wait", Wait: &workflow.WaitSpec{Event: "go"}}}}
	measure := func() (stacks uint64, goroutines int) { // until nothing changes
		for range 20 {
			for range 3 { // each halves a stack once
				runtime.GC()
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			stacksBefore, goroutinesBefore := stacks, goroutines
			if stacks, goroutines = m.StackInuse, ownGoroutines(t); stacks == stacksBefore && goroutines == goroutinesBefore {
				break
			}
		}
		return stacks, goroutines
	}
	const runs = 300
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "before", Definition: def}, nil)) // what Open has begun has mostly ended then
	stacks, goroutines := measure()
	for i := range runs {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("run-", i)), Definition: def}, nil))
	}
	stacksAfter, goroutinesAfter := measure()
	require.InDelta(t, runs, goroutinesAfter-goroutines, 10)
	require.Less(t, (float64(stacksAfter)-float64(stacks))/runs, 6.5*1024)
}

// A task that Close interrupts has not failed, whether its handler returns an error, panics
// or ends its goroutine: it is sent again by the next Open, as the same attempt. A task that
// ends in spite of Close is not sent again.
func TestCloseInterruptsTasks(t *testing.T) {
	const runs = 20
	dir := t.TempDir()
	def := &workflow.Definition{Name: "close", Start: "split", Nodes: []workflow.Node{{ID: "split"}}}
	var begun sync.WaitGroup
	for _, way := range []string{"stop", "panic", "exit", "end"} {
		def.Nodes = append(def.Nodes, workflow.Node{ID: workflow.NodeID(way), Task: way})
		def.Transitions = append(def.Transitions, workflow.Transition{From: "split", To: workflow.NodeID(way)})
		begun.Add(runs)
	}
	wait := func(ctx context.Context) {
		begun.Done()
		<-ctx.Done()
	}
	var log logged
	engine, err := pawl.Open(t.Context(), dir, pawl.Options{Logger: log.logger(), Executor: pawl.Handlers{
		"stop":  func(ctx context.Context, _ pawl.Task) (any, error) { wait(ctx); return nil, ctx.Err() },
		"panic": func(ctx context.Context, _ pawl.Task) (any, error) { wait(ctx); panic(ctx.Err()) },
		"exit":  func(ctx context.Context, _ pawl.Task) (any, error) { wait(ctx); runtime.Goexit(); return nil, nil },
		"end":   func(ctx context.Context, _ pawl.Task) (any, error) { wait(ctx); return nil, nil },
	}})
	require.NoError(t, err)
	id := func(i int) workflow.RunID { return workflow.RunID(fmt.Sprint(i)) }
	for i := range runs {
		require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: id(i), Definition: def}, nil))
	}
	begun.Wait()
	require.NoError(t, engine.Close(t.Context()))

	var mu sync.Mutex
	again := map[string]int{}
	engine, err = pawl.Open(t.Context(), dir, pawl.Options{Executor: pawl.Handlers{
		"*": func(_ context.Context, task pawl.Task) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			again[fmt.Sprint(task.Type, " ", task.Attempt)]++
			return nil, nil
		},
	}})
	require.NoError(t, err)
	for i := range runs {
		out, err := engine.Wait(t.Context(), id(i))
		require.NoError(t, err)
		require.NoError(t, out.Err())
	}
	require.NoError(t, engine.Close(t.Context()))
	require.Equal(t, map[string]int{"stop 1": runs, "panic 1": runs, "exit 1": runs}, again)
	require.Equal(t, runs, strings.Count(log.text.String(), "pawl: a handler panicked"))
}

// Close says what it waits for: in the log while it waits, and in its error when it gives up.
func TestCloseSaysWhatItWaitsFor(t *testing.T) {
	for place, want := range map[string]string{
		"task.begin":    `1 handlers have not returned: task "work" at node "work" of run "slow"`,
		"actor.load":    `1 runs compute or read: "slow"`,
		"commit.inside": "the disk does not answer",
		"close.actors":  "messages to runs are on their way",
	} {
		t.Run(place, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log logged
				hook, gate := &testhook.Hook{}, make(chan struct{})
				ctx := testhook.With(t.Context(), hook)
				engine, err := pawl.Open(ctx, replays.Dir(t), pawl.Options{Logger: log.logger(), Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return nil, nil }}})
				require.NoError(t, err)
				synctest.Wait() // the alarms have been looked at: who waits for a mutex stops the clock of the bubble
				hook.OnHit(func(point string) {
					if point == place {
						<-gate
					}
				})
				starting, cancel := context.WithCancel(ctx)
				go func() {
					_ = engine.Start(starting, workflow.Run{ID: "slow", Definition: define(t, oneTask)}, map[string]any{"n": 1})
				}()
				synctest.Wait()
				soon, done := context.WithTimeout(ctx, 35*time.Second)
				defer done()
				err = engine.Close(soon)
				var left *pawl.LeftBehindError
				if !errors.As(err, &left) {
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.EqualError(t, err, want+", the engine is still closing: "+context.DeadlineExceeded.Error())
				}
				require.Equal(t, 2, strings.Count(log.text.String(), `level=WARN msg="pawl: Close waits: `+strings.ReplaceAll(want, `"`, `\"`)+"\"\n"), log.text.String())
				close(gate)
				cancel()
				_ = engine.Close(t.Context())
			})
		})
	}
}

// Open refuses numbers that nobody can mean, and names the option.
func TestOptionsThatCannotBe(t *testing.T) {
	for name, o := range map[string]pawl.Options{
		"Concurrency": {Concurrency: -1}, "MaxActive": {MaxActive: -1}, "IdleAfter": {IdleAfter: -1}, "Grace": {Grace: -time.Second}, "StallAfter": {StallAfter: -1},
		"Durability": {Durability: 9}, "Bounds.Nodes": {Bounds: workflow.Bounds{Nodes: -1}}, "Bounds.Subschemas": {Bounds: workflow.Bounds{Subschemas: -1}},
	} {
		_, err := pawl.Open(t.Context(), t.TempDir(), o)
		require.ErrorIs(t, err, pawl.ErrInvalid, name)
		require.ErrorContains(t, err, "Options."+name+" is ")
	}
}
