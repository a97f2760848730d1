package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/workflow"
)

const beating = `
name: beat
start: w
nodes: [{id: w, task: w, heartbeat: 10s, retry: {maxAttempts: 3, initialInterval: 1s, jitter: 0}, output: {output.from: result.from}}]
`

// pendingTask starts the run a of a definition whose tasks wait for a call from
// outside, and returns the engine and the tasks as they come.
func pendingTask(t *testing.T, dir, yaml string) (*pawl.Engine, chan pawl.Task) {
	t.Helper()
	tasks := make(chan pawl.Task, 10)
	e, err := pawl.Open(t.Context(), dir, pawl.Options{Executor: pawl.Handlers{"w": func(_ context.Context, t pawl.Task) (any, error) {
		tasks <- t
		return nil, pawl.ErrPending
	}}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = e.Close(context.WithoutCancel(t.Context())) })
	if yaml != "" {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, yaml)}, nil))
	}
	return e, tasks
}

// heartbeats returns the heartbeats in the journal of the run a.
func heartbeats(t *testing.T, e *pawl.Engine) (out []state.Heartbeat) {
	t.Helper()
	for r, err := range e.Journal(t.Context(), "a", pawl.EventsOptions{}) {
		require.NoError(t, err)
		if m, ok := r.Message.(state.Heartbeat); ok {
			out = append(out, m)
		}
	}
	return out
}

// Thousands of heartbeats within a tenth of the interval are two records: the first of
// them, and what the others come to. The last details are in the second, and Inspect
// shows them.
func TestHeartbeatsAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, tasks := pendingTask(t, t.TempDir(), beating)
		task := <-tasks
		for n := range 3000 {
			require.NoError(t, task.Heartbeat(t.Context(), map[string]any{"n": n}))
		}
		require.NoError(t, task.Heartbeat(t.Context(), nil))
		require.Equal(t, 1, len(heartbeats(t, e)))
		passTime(time.Second)
		told := heartbeats(t, e)
		require.Equal(t, 2, len(told))
		require.Equal(t, map[string]any{"n": int64(2999)}, told[1].Details)
		snap, err := e.Inspect(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, map[string]any{"n": int64(2999)}, snap.Tokens[0].Details)
		require.NoError(t, e.Complete(t.Context(), task.Key, nil))
		require.ErrorIs(t, task.Heartbeat(t.Context(), nil), pawl.ErrStale)
	})
}

// The blobs of merged details are there until the run has the details, or others come in their place, or none is wanted any more.
func TestMergedHeartbeatsKeepTheirBlobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, tasks := pendingTask(t, t.TempDir(), "name: one\nstart: w\nnodes: [{id: w, task: w}]\n")
		task := <-tasks
		beat := func(texts ...string) {
			var refs []blob.Ref
			for _, text := range texts {
				refs = append(refs, must(e.PutBlob(t.Context(), strings.NewReader(text), "")))
			}
			passTime(2 * time.Minute)
			require.NoError(t, task.Heartbeat(t.Context(), nil))
			for _, ref := range refs {
				require.NoError(t, task.Heartbeat(t.Context(), map[string]any{"at": ref}))
			}
			require.NoError(t, task.Heartbeat(t.Context(), nil))
		}
		collect := func() pawl.Collected { return must(e.CollectBlobs(t.Context(), time.Minute)) }
		beat("one", "second")
		require.Equal(t, pawl.Collected{Blobs: 1, Bytes: 3}, collect())
		passTime(time.Second)
		require.Zero(t, collect())
		snap, err := e.Inspect(t.Context(), "a")
		require.NoError(t, err)
		ref, err := blob.ParseRef(snap.Tokens[0].Details.(map[string]any)["at"])
		require.NoError(t, err)
		r, err := e.OpenBlob(t.Context(), ref)
		require.NoError(t, err)
		require.NoError(t, r.Close())

		beat("last one")
		require.Zero(t, collect())
		require.NoError(t, e.Complete(t.Context(), task.Key, nil))
		synctest.Wait()
		require.Equal(t, pawl.Collected{Blobs: 1, Bytes: 8}, collect())
	})
}

// An attempt that is never silent for its interval does not time out because some of
// its heartbeats were merged.
func TestMergedHeartbeatsKeepAnAttemptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, tasks := pendingTask(t, t.TempDir(), beating)
		task := <-tasks
		for range 5 {
			require.NoError(t, task.Heartbeat(t.Context(), nil))
			passTime(900 * time.Millisecond)
			require.NoError(t, task.Heartbeat(t.Context(), nil))
			passTime(9900 * time.Millisecond)
		}
		require.NoError(t, e.Complete(t.Context(), task.Key, map[string]any{"from": task.Attempt}))
		out, err := e.Wait(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, map[string]any{"from": int64(1)}, out.Output)
	})
}

// The details that wait to be told come with the error or the snooze of their attempt,
// and when the engine closes.
func TestTheLastDetailsAreNotLost(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, e *pawl.Engine, task pawl.Task) error{
		"fail": func(t *testing.T, e *pawl.Engine, task pawl.Task) error {
			return e.Fail(t.Context(), task.Key, errors.New("no"))
		},
		"snooze": func(t *testing.T, e *pawl.Engine, task pawl.Task) error {
			return e.Fail(t.Context(), task.Key, pawl.Snooze(0))
		},
		"close": func(t *testing.T, e *pawl.Engine, task pawl.Task) error { return e.Close(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				e, tasks := pendingTask(t, dir, beating)
				task := <-tasks
				require.Nil(t, task.Details)
				require.NoError(t, task.Heartbeat(t.Context(), 1))
				require.NoError(t, task.Heartbeat(t.Context(), 2))
				require.NoError(t, end(t, e, task))
				if name == "close" {
					_, tasks = pendingTask(t, dir, "")
				}
				require.Equal(t, int64(2), (<-tasks).Details)
			})
		})
	}
}

// A handler that fails by itself hands its last details on.
func TestTheLastDetailsOfAHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"w": func(ctx context.Context, t pawl.Task) (any, error) {
			if t.Attempt == 3 {
				return map[string]any{"from": t.Details}, nil
			}
			_ = t.Heartbeat(ctx, map[string]any{"row": 0})
			_ = t.Heartbeat(ctx, map[string]any{"row": t.Attempt})
			return nil, errors.New("reset")
		}}})
		out, err := e.Run(t.Context(), workflow.Run{ID: "a", Definition: define(t, beating)}, nil)
		require.NoError(t, err)
		require.Equal(t, map[string]any{"from": map[string]any{"row": int64(2)}}, out.Output)
	})
}

// Details are values of a bounded size.
func TestDetailsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, tasks := pendingTask(t, t.TempDir(), beating)
		task := <-tasks
		require.NoError(t, task.Heartbeat(t.Context(), strings.Repeat("x", limits.MaxDetails-2)))
		err := task.Heartbeat(t.Context(), strings.Repeat("x", limits.MaxDetails-1))
		require.ErrorIs(t, err, pawl.ErrInvalid)
		var limit *workflow.LimitError
		require.ErrorAs(t, err, &limit)
		assert.Equal(t, int64(limits.MaxDetails), limit.Max)
		require.ErrorContains(t, err, "the details of a heartbeat")
		require.ErrorIs(t, task.Heartbeat(t.Context(), make(chan int)), pawl.ErrInvalid)
		require.Error(t, task.Heartbeat(t.Context(), map[string]any{"$blob": "sha256:" + strings.Repeat("0", 64), "size": 1}))
		require.Len(t, heartbeats(t, e), 1)
	})
}

// Inspect counts the branches of a group.
func TestInspectCountsBranches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const yaml = `
name: spread
start: s
nodes: [{id: s}, {id: w, task: w}, {id: z}]
transitions:
  - {from: s, to: w, spawnCount: 9, siblingGroup: g, maxConcurrency: 4}
  - {from: w, to: z, synchronization: {siblingGroup: g, tolerate: {failures: 9}}}
`
		e, tasks := pendingTask(t, t.TempDir(), yaml)
		first, second := <-tasks, <-tasks
		require.NoError(t, e.Complete(t.Context(), first.Key, nil))
		require.NoError(t, e.Fail(t.Context(), second.Key, errors.New("no")))
		synctest.Wait()
		snap, err := e.Inspect(t.Context(), "a")
		require.NoError(t, err)
		g := snap.Groups[0]
		assert.Equal(t, []int{9, 1, 0, 1, 4}, []int{g.Total, g.Arrived, g.Ended, g.Failed, g.Running})
	})
}

// passTime lets time pass in the bubble.
func passTime(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

const snoozing = "name: one\nstart: w\nnodes: [{id: w, task: w, output: {output.calls: result.calls}}]\n"

// A snooze is as long as it asks for, within its bounds, also where it is wrapped.
func TestSnoozeIsBounded(t *testing.T) {
	for asked, delay := range map[time.Duration]time.Duration{
		0: limits.MinSnooze, -time.Hour: limits.MinSnooze, 20 * time.Millisecond: limits.MinSnooze,
		time.Minute: time.Minute, 1 << 62: limits.MaxSnooze,
	} {
		for name, err := range map[string]error{"plain": pawl.Snooze(asked), "wrapped": fmt.Errorf("not there: %w", pawl.Snooze(asked))} {
			t.Run(fmt.Sprint(asked, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					require.False(t, pawl.IsPermanent(err))
					var began []time.Time
					hook := &testhook.Hook{}
					hook.SetMaxNap(2 * limits.MaxSnooze) // otherwise the engine looks at the clock every minute of them
					e := openWith(t, hook, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"w": func(_ context.Context, t pawl.Task) (any, error) {
						if began = append(began, time.Now()); t.Attempt == 1 {
							return nil, err
						}
						return map[string]any{"calls": t.Attempt}, nil
					}}})
					out, err := e.Run(t.Context(), workflow.Run{ID: "a", Definition: define(t, snoozing)}, nil)
					require.NoError(t, err)
					require.NoError(t, out.Err())
					require.Equal(t, map[string]any{"calls": int64(2)}, out.Output)
					require.Equal(t, delay, began[1].Sub(began[0]).Truncate(10*time.Millisecond))
				})
			})
		}
	}
}

// A task that snoozes leaves its slot to others, Inspect shows it, Retry wakes it, and
// it is called again after a restart.
func TestSnoozeHoldsNoSlotAndIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, dir := t.Context(), t.TempDir()
		o := pawl.Options{Concurrency: 1, Executor: pawl.Handlers{"w": func(_ context.Context, t pawl.Task) (any, error) {
			if t.Run == "other" || t.Attempt > 3 {
				return map[string]any{"calls": t.Attempt}, nil
			}
			return nil, pawl.Snooze(time.Hour)
		}}}
		e, err := pawl.Open(ctx, dir, o)
		require.NoError(t, err)
		require.NoError(t, e.Start(ctx, workflow.Run{ID: "a", Definition: define(t, snoozing)}, nil))
		synctest.Wait()
		began := time.Now()
		out, err := e.Run(ctx, workflow.Run{ID: "other", Definition: define(t, snoozing)}, nil)
		require.NoError(t, err)
		require.NoError(t, out.Err())
		require.Less(t, time.Since(began), time.Minute)

		snap, err := e.Inspect(ctx, "a")
		require.NoError(t, err)
		token := snap.Tokens[0]
		assert.Equal(t, []any{workflow.Retrying, 1, 1, (*workflow.Failure)(nil)}, []any{token.Status, token.Attempt, token.Snoozes, token.Failure})
		assert.Equal(t, time.Hour, token.Due.Sub(began).Round(time.Minute))
		require.ErrorIs(t, e.Complete(ctx, token.Key, nil), pawl.ErrStale)

		require.NoError(t, e.Retry(ctx, pawl.Target{Run: "a", Node: "w"}, pawl.RetryOptions{}))
		synctest.Wait()
		require.NoError(t, e.Close(ctx))
		e = open(t, dir, o)
		out, err = e.Wait(ctx, "a")
		require.NoError(t, err)
		require.Equal(t, map[string]any{"calls": int64(4)}, out.Output)
		require.Equal(t, 2*time.Hour, time.Since(began).Round(time.Minute))
	})
}

// Fail takes a snooze as Execute does. An error whose methods panic is not a snooze.
func TestFailTakesASnooze(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		keys := make(chan pawl.Key, 2)
		e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"w": func(_ context.Context, t pawl.Task) (any, error) {
			keys <- t.Key
			return nil, pawl.ErrPending
		}}})
		require.NoError(t, e.Start(ctx, workflow.Run{ID: "a", Definition: define(t, snoozing)}, nil))
		first := <-keys
		require.NoError(t, e.Fail(ctx, first, pawl.Snooze(time.Minute)))
		require.NoError(t, e.Fail(ctx, first, pawl.Snooze(time.Minute)), "it is the same once more")
		second := <-keys
		require.NotEqual(t, first, second)
		require.ErrorIs(t, e.Fail(ctx, first, pawl.Snooze(time.Minute)), pawl.ErrStale)
		require.NoError(t, e.Fail(ctx, second, hostile{}))
		out, err := e.Wait(ctx, "a")
		require.NoError(t, err)
		require.Equal(t, workflow.CodePanic, out.Failure.Code)
	})
}

// hostile is an error that panics when it is asked what it is.
type hostile struct{}

func (hostile) Error() string { return "hostile" }

func (hostile) As(any) bool { panic("do not ask") }

// A task says how long its next attempt waits. For a time that is not to come the
// policy counts, and for one that is too far away the bound.
func TestRetryAfterTakesThePlaceOfThePolicysDelay(t *testing.T) {
	const policy = "name: one\nstart: w\nnodes: [{id: w, task: w, retry: {maxAttempts: 2, initialInterval: 1s, jitter: 0}}]\n"
	for after, delay := range map[time.Duration]time.Duration{
		0: time.Second, -time.Hour: time.Second, time.Minute: time.Minute, 20 * time.Millisecond: 20 * time.Millisecond,
		1 << 62: limits.MaxRetryAfter,
	} {
		asked := pawl.TaskError{Code: "busy", Retryable: true, RetryAfter: after}
		for name, err := range map[string]error{"value": asked, "pointer": &asked, "wrapped": fmt.Errorf("call: %w", asked)} {
			t.Run(fmt.Sprint(after, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var began []time.Time
					e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"w": func(context.Context, pawl.Task) (any, error) {
						began = append(began, time.Now())
						return nil, err
					}}})
					out, err := e.Run(t.Context(), workflow.Run{ID: "a", Definition: define(t, policy)}, nil)
					require.NoError(t, err)
					require.Equal(t, "busy", out.Failure.Code)
					require.Len(t, began, 2)
					require.Equal(t, delay, began[1].Sub(began[0]).Truncate(10*time.Millisecond))
				})
			})
		}
	}
}

// Fail takes the delay as well, which is durable.
func TestRetryAfterOfFailSurvivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const policy = "name: one\nstart: w\nnodes: [{id: w, task: w, retry: {maxAttempts: 2, initialInterval: 1s, jitter: 0}}]\n"
		ctx, dir := t.Context(), t.TempDir()
		keys := make(chan pawl.Key, 2)
		o := pawl.Options{Executor: pawl.Handlers{"w": func(_ context.Context, task pawl.Task) (any, error) {
			keys <- task.Key
			return nil, pawl.ErrPending
		}}}
		e, err := pawl.Open(ctx, dir, o)
		require.NoError(t, err)
		require.NoError(t, e.Start(ctx, workflow.Run{ID: "a", Definition: define(t, policy)}, nil))
		key := <-keys
		asked := time.Now()
		require.NoError(t, e.Fail(ctx, key, pawl.TaskError{Code: "busy", Retryable: true, RetryAfter: time.Hour}))
		require.NoError(t, e.Close(ctx))
		e = open(t, dir, o)
		key = <-keys
		require.Equal(t, time.Hour, time.Since(asked).Truncate(10*time.Millisecond))
		require.NoError(t, e.Fail(ctx, key, errors.New("no")))
	})
}

// An attempt whose timeout has passed while no engine had the run is not handed out again, which would do work for nothing: it has
// timed out when the engine opens. Where policy allows, the next attempt begins.
func TestAnAttemptThatTimedOutWhileNobodyWasThereIsNotPerformed(t *testing.T) {
	for _, want := range [][]int{{1}, {1, 2}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, dir := t.Context(), t.TempDir()
			var attempts []int
			o := pawl.Options{Executor: pawl.Handlers{"w": func(ctx context.Context, task pawl.Task) (any, error) {
				if attempts = append(attempts, task.Attempt); len(attempts) == 1 {
					<-ctx.Done() // the engine is closed
					return nil, ctx.Err()
				}
				return nil, nil
			}}}
			e, err := pawl.Open(ctx, dir, o)
			require.NoError(t, err)
			require.NoError(t, e.Start(ctx, workflow.Run{ID: "a", Definition: define(t, fmt.Sprintf("name: one\nstart: w\nnodes: [{id: w, task: w, timeout: 3s, retry: {maxAttempts: %d, initialInterval: 1s, jitter: 0}}]\n", len(want)))}, nil))
			synctest.Wait()
			require.NoError(t, e.Close(ctx))
			<-time.After(4 * time.Second)
			e = open(t, dir, o)
			out, err := e.Wait(ctx, "a")
			require.NoError(t, err)
			require.Equal(t, want, attempts)
			if len(want) > 1 {
				require.NoError(t, out.Err())
				return
			}
			require.Equal(t, workflow.CodeTimeout, out.Failure.Code)
		})
	}
}

// named returns a handler that says its name.
func named(name string) func(context.Context, pawl.Task) (any, error) {
	return func(context.Context, pawl.Task) (any, error) { return name, nil }
}

func TestHandlersRoute(t *testing.T) {
	tests := []struct {
		handlers   pawl.Handlers
		task, want string // want is empty if there is no route
	}{
		{pawl.Handlers{"a": named("a"), "*": named("rest")}, "a", "a"},
		{pawl.Handlers{"a": named("a"), "*": named("rest")}, "b", "rest"},
		{pawl.Handlers{"a": nil, "*": named("rest")}, "a", "rest"},
		{pawl.Handlers{"a": named("a"), "b": named("b")}, "c", ""},
		{pawl.Handlers{"a": nil, "*": nil}, "a", ""},
		{nil, "a", ""},
	}
	for _, tt := range tests {
		out, err := tt.handlers.Execute(t.Context(), pawl.Task{Type: tt.task})
		if tt.want != "" {
			require.NoError(t, err)
			require.Equal(t, tt.want, out)
			continue
		}
		var failure pawl.TaskError
		require.ErrorAs(t, err, &failure)
		require.Equal(t, workflow.CodeUnknownTask, failure.Code)
		require.False(t, failure.Retryable)
	}
	_, err := pawl.Handlers{"b": named("b"), "a": named("a")}.Execute(t.Context(), pawl.Task{Type: "c"})
	require.EqualError(t, err, `unknown_task: no handler for task type "c"; there are: a, b`)
}

// An engine refuses handlers that no task could reach.
func TestHandlersThatAreMissing(t *testing.T) {
	for name, h := range map[string]pawl.Handlers{"x": {"x": nil}, "*": {"*": nil, "b": named("b")}, "": {"": named("a")}} {
		require.ErrorIs(t, h.Check(), pawl.ErrInvalid)
		_, err := pawl.Open(t.Context(), t.TempDir(), pawl.Options{Executor: h})
		require.ErrorIs(t, err, pawl.ErrInvalid)
		require.ErrorContains(t, err, fmt.Sprintf("%q", name))
	}
	_, err := pawl.Handlers{"a": nil, "b": named("b")}.Execute(t.Context(), pawl.Task{Type: "a"})
	require.EqualError(t, err, `unknown_task: no handler for task type "a"; there are: b`)
}

// A type that nobody knows fails the run at once, with any retry policy; with a
// default route it is performed, and an error transition can catch it.
func TestUnknownTaskType(t *testing.T) {
	const source = `
name: unknown
start: x
nodes:
  - {id: x, task: nobody, retry: {maxAttempts: 9, initialInterval: 1h}, output: {output.by: result}}
`
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"a": named("a")}})
	out, err := e.Run(t.Context(), workflow.Run{ID: "fails", Definition: define(t, source)}, nil)
	require.NoError(t, err)
	require.Equal(t, workflow.RunFailed, out.Status)
	require.Equal(t, workflow.CodeUnknownTask, out.Failure.Code)
	require.Equal(t, 1, out.Failure.Attempts)
	require.Contains(t, out.Failure.Message, `no handler for task type "nobody"`)

	caught := source + "  - {id: y, output: {output.by: error.code}}\ntransitions: [{from: x, to: y, outcome: error, errors: [unknown_task]}]\n"
	out, err = e.Run(t.Context(), workflow.Run{ID: "caught", Definition: define(t, caught)}, nil)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"by": "unknown_task"}, out.Output)

	rest := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"a": named("a"), "*": named("rest")}})
	out, err = rest.Run(t.Context(), workflow.Run{ID: "rest", Definition: define(t, source)}, nil)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"by": "rest"}, out.Output)
}

// An outcome is made once: by one of many callers, over restarts, until it is
// forgotten.
func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		e, err := pawl.Open(t.Context(), dir, pawl.Options{})
		require.NoError(t, err)
		var calls atomic.Int32
		charge := func(context.Context) (any, error) {
			<-time.After(time.Second)
			return map[string]int32{"receipt": calls.Add(1)}, nil
		}
		once := func(key string) any {
			out, err := e.Once(t.Context(), key, charge)
			require.NoError(t, err)
			return out.(map[string]any)["receipt"]
		}
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				out, err := e.Once(t.Context(), "invoice/1", charge)
				if err != nil || out.(map[string]any)["receipt"] != int64(1) {
					t.Errorf("%v, %v", out, err)
				}
			})
		}
		group.Wait()
		require.EqualValues(t, 2, once("invoice/2"))
		require.NoError(t, e.Close(context.Background()))
		_, err = e.Once(t.Context(), "invoice/1", charge)
		require.ErrorIs(t, err, pawl.ErrClosed)

		e, err = pawl.Open(t.Context(), dir, pawl.Options{})
		require.NoError(t, err)
		defer func() { require.NoError(t, e.Close(context.Background())) }()
		require.EqualValues(t, 1, once("invoice/1"))
		require.NoError(t, e.Forget(t.Context(), "invoice/1"))
		require.NoError(t, e.Forget(t.Context(), "never"))
		<-time.After(time.Hour)
		require.EqualValues(t, 3, once("invoice/1"))
		n, err := e.ForgetBefore(t.Context(), time.Now()) // what is kept since then stays
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.EqualValues(t, 3, once("invoice/1"))
		require.EqualValues(t, 4, once("invoice/2"))
	})
}

// The outcome of a task's effect goes with its run: to forget old outcomes makes no effect of a run again.
func TestForgetBeforeLeavesWhatTasksNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"pay": func(ctx context.Context, task pawl.Task) (any, error) {
			out, err := task.Once(ctx, "", func(context.Context) (any, error) { made++; return made, nil })
			if err == nil && task.Attempt == 1 {
				err = pawl.TaskError{Code: "busy", Retryable: true}
			}
			return out, err
		}}})
		d := define(t, `{name: w, start: a, nodes: [{id: a, task: pay, retry: {maxAttempts: 2, initialInterval: 1h}}]}`)
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: d}, nil))
		_, err := e.Once(t.Context(), "invoice/1", func(context.Context) (any, error) { return 1, nil })
		require.NoError(t, err)
		<-time.After(time.Minute)
		n, err := e.ForgetBefore(t.Context(), time.Now())
		require.NoError(t, err)
		require.Equal(t, 1, n)
		out, err := e.Wait(t.Context(), "r")
		require.NoError(t, err)
		require.Equal(t, workflow.RunCompleted, out.Status)
		require.Equal(t, 1, made)
	})
}

// A failure, a panic or an outcome that cannot be kept is not kept: the next
// caller tries again. A caller that waits does not wait longer than its
// context.
func TestOnceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, t.TempDir(), pawl.Options{})
		bad := errors.New("the bank is closed")
		_, err := e.Once(t.Context(), "k", func(context.Context) (any, error) { return nil, bad })
		require.ErrorIs(t, err, bad)
		require.Panics(t, func() {
			_, _ = e.Once(t.Context(), "k", func(context.Context) (any, error) { panic("no") })
		})
		_, err = e.Once(t.Context(), "k", func(context.Context) (any, error) { return make(chan int), nil })
		require.ErrorIs(t, err, pawl.ErrInvalid)
		var le *workflow.LimitError
		_, err = e.Once(t.Context(), "k", func(context.Context) (any, error) { return strings.Repeat("x", 1<<20), nil })
		require.ErrorAs(t, err, &le)
		for _, key := range []string{"", strings.Repeat("k", 256), "\xff"} {
			_, err = e.Once(t.Context(), key, func(context.Context) (any, error) { return nil, nil })
			require.ErrorIs(t, err, pawl.ErrInvalid)
		}

		release, answers := make(chan struct{}), make(chan any, 2)
		go func() {
			out, _ := e.Once(t.Context(), "k", func(context.Context) (any, error) { <-release; return nil, bad })
			answers <- out
		}()
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = e.Once(short, "k", nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		go func() {
			out, _ := e.Once(t.Context(), "k", func(context.Context) (any, error) { return "second", nil })
			answers <- out
		}()
		synctest.Wait()
		close(release)
		require.ElementsMatch(t, []any{nil, "second"}, []any{<-answers, <-answers})
	})
}

// A handler that fails after its effect does not repeat the effect in the next
// attempt; another task has an effect of its own.
func TestTaskOnce(t *testing.T) {
	var effects atomic.Int32
	d := define(t, "name: w\nstart: a\nnodes: [{id: a, task: t, retry: {maxAttempts: 3, initialInterval: 1ms}}, {id: b, task: t}]\ntransitions: [{from: a, to: b}]\n")
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"t": func(ctx context.Context, task pawl.Task) (any, error) {
		out, err := task.Once(ctx, "", func(context.Context) (any, error) { return effects.Add(1), nil })
		if err == nil && task.Node == "a" && task.Attempt < 3 {
			err = errors.New("later")
		}
		return out, err
	}}})
	out, err := e.Run(t.Context(), workflow.Run{ID: workflow.RunID(strings.Repeat("r", 250)), Definition: d}, nil)
	require.NoError(t, err)
	require.NoError(t, out.Err())
	require.EqualValues(t, 2, effects.Load())
}

// A handler that outlives its run keeps nothing for the next run of that id, whether the purge finds it before its effect or in
// it; other purges and a cancelled run change nothing.
func TestTaskOnceEndsWithItsRun(t *testing.T) {
	for _, within := range []bool{false, true} {
		t.Run(map[bool]string{false: "before", true: "within"}[within], func(t *testing.T) {
			d := define(t, "name: w\nstart: a\nnodes: [{id: a, task: t, input: {which: input.which}, output: {output.which: result}}]\n")
			began, release, left := make(chan struct{}, 1), make(chan struct{}), make(chan error, 1)
			e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"t": func(ctx context.Context, task pawl.Task) (any, error) {
				which := task.Input.(map[string]any)["which"]
				wait := func() {
					if which == "first" {
						began <- struct{}{}
						<-release
					}
				}
				if !within {
					wait()
				}
				out, err := task.Once(context.WithoutCancel(ctx), "", func(context.Context) (any, error) {
					if within {
						wait()
					}
					return which, nil
				})
				if which == "first" {
					left <- err
				}
				return out, err
			}}})
			defer close(release)
			run := workflow.Run{ID: "same", Definition: d}
			perform := func(run workflow.Run, input string) {
				out, err := e.Run(t.Context(), run, map[string]any{"which": input})
				require.NoError(t, err)
				require.Equal(t, map[string]any{"which": input}, out.Output)
			}
			start := func() {
				require.NoError(t, e.Start(t.Context(), run, map[string]any{"which": "first"}))
				<-began
				require.NoError(t, e.Cancel(t.Context(), run.ID, ""))
				_, err := e.Wait(t.Context(), run.ID)
				require.NoError(t, err)
			}
			start()
			perform(workflow.Run{ID: "other", Definition: d}, "other")
			require.NoError(t, e.Purge(t.Context(), "other"))
			release <- struct{}{}
			require.NoError(t, <-left)
			require.NoError(t, e.Purge(t.Context(), run.ID))

			start()
			require.NoError(t, e.Purge(t.Context(), run.ID))
			if within { // the next run has its turn when this one is done
				release <- struct{}{}
				require.ErrorIs(t, <-left, pawl.ErrRunNotFound)
				perform(run, "second")
				return
			}
			require.NoError(t, e.Start(t.Context(), run, map[string]any{"which": "first"}))
			<-began
			release <- struct{}{} // one of the two, which cannot be told apart but by their answers
			one := <-left
			release <- struct{}{}
			other := <-left
			require.True(t, errors.Is(one, pawl.ErrRunNotFound) != errors.Is(other, pawl.ErrRunNotFound), "%v, %v", one, other)
			out, err := e.Wait(t.Context(), run.ID)
			require.NoError(t, err)
			require.Equal(t, map[string]any{"which": "first"}, out.Output)
		})
	}
}

// The same holds for a task that was sent again after a restart, whose attempt is of an earlier life of the engine. While its run is
// there, other purges change nothing.
func TestTaskOnceEndsWithItsRunAfterARestart(t *testing.T) {
	dir := t.TempDir()
	d := define(t, "name: w\nstart: a\nnodes: [{id: a, task: t, input: {which: input.which}, output: {output.which: result}}]\n")
	began, release, left := make(chan struct{}, 1), make(chan struct{}), make(chan error, 1)
	perform := func(ctx context.Context, task pawl.Task) (any, error) {
		which := task.Input.(map[string]any)["which"]
		once := func() (any, error) {
			return task.Once(context.WithoutCancel(ctx), "", func(context.Context) (any, error) { return which, nil })
		}
		if which != "first" {
			return once()
		}
		began <- struct{}{}
		for range release {
			_, err := once()
			left <- err
		}
		return nil, nil
	}
	e, err := pawl.Open(t.Context(), dir, pawl.Options{Executor: pawl.Handlers{"t": func(ctx context.Context, _ pawl.Task) (any, error) {
		began <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}}})
	require.NoError(t, err)
	run := workflow.Run{ID: "same", Definition: d}
	require.NoError(t, e.Start(t.Context(), run, map[string]any{"which": "first"}))
	<-began
	require.NoError(t, e.Close(t.Context()))

	e = open(t, dir, pawl.Options{Executor: pawl.Handlers{"t": perform}})
	defer close(release)
	<-began
	_, err = e.Run(t.Context(), workflow.Run{ID: "other", Definition: d}, map[string]any{"which": "other"})
	require.NoError(t, err)
	require.NoError(t, e.Purge(t.Context(), "other"))
	release <- struct{}{}
	require.NoError(t, <-left)
	require.NoError(t, e.Cancel(t.Context(), "same", ""))
	_, err = e.Wait(t.Context(), "same")
	require.NoError(t, err)
	require.NoError(t, e.Purge(t.Context(), "same"))
	release <- struct{}{}
	require.ErrorIs(t, <-left, pawl.ErrRunNotFound)
	out, err := e.Run(t.Context(), run, map[string]any{"which": "second"})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"which": "second"}, out.Output)
	release <- struct{}{}
	require.ErrorIs(t, <-left, pawl.ErrRunNotFound, "the outcome is another run's")
}

// The next run of the id may be a fork of a run that began before.
func TestTaskOnceEndsBeforeAFork(t *testing.T) {
	d := define(t, "name: w\nstart: a\nnodes: [{id: a, task: t, input: {which: input.which}, output: {output.which: result}}]\n")
	began, left := make(chan struct{}, 1), make(chan error, 2)
	release := map[any]chan struct{}{"first": make(chan struct{}), "forked": make(chan struct{})}
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"t": func(ctx context.Context, task pawl.Task) (any, error) {
		which := task.Input.(map[string]any)["which"]
		began <- struct{}{}
		if task.Run == "source" {
			return nil, pawl.ErrPending
		}
		<-release[which]
		out, err := task.Once(context.WithoutCancel(ctx), "", func(context.Context) (any, error) { return which, nil })
		left <- err
		return out, err
	}}})
	defer close(release["first"])
	defer close(release["forked"])
	for id, which := range map[workflow.RunID]string{"source": "forked", "same": "first"} {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: d}, map[string]any{"which": which}))
		<-began
	}
	purge := func(id workflow.RunID) {
		require.NoError(t, e.Cancel(t.Context(), id, ""))
		_, err := e.Wait(t.Context(), id)
		require.NoError(t, err)
		require.NoError(t, e.Purge(t.Context(), id))
	}
	purge("same")
	require.NoError(t, e.Fork(t.Context(), "source", "same", pawl.ForkOptions{}))
	<-began
	release["first"] <- struct{}{}
	require.ErrorIs(t, <-left, pawl.ErrRunNotFound)
	purge("source") // which does not concern the fork
	release["forked"] <- struct{}{}
	require.NoError(t, <-left)
	out, err := e.Wait(t.Context(), "same")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"which": "forked"}, out.Output)
}
