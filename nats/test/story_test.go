package natstest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// number is a handler that returns its input.
func number(_ context.Context, t pawl.Task) (any, error) {
	return t.Input.(map[string]any)["n"], nil
}

// A run whose tasks are performed by two workers ends with every result in its place.
func TestTasksGoToWorkersAndBack(t *testing.T) {
	onEach(t, func(t *testing.T, over transport) {
		engine, stop := over.open(t, t.TempDir(), longLease)
		defer stop()
		defer workOver(t, over, "ann", 4, pawl.Handlers{"work": number})()
		defer workOver(t, over, "bob", 4, pawl.Handlers{"work": number})()
		require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, fanOut)}, items(500)))
		requireResults(t, engine, 500)
	})
}

const single = `
name: single
start: a
nodes: [{id: a, task: work, retry: {maxAttempts: 3}, output: {output.a: result}}]
`

// A task says when it was dispatched and when its handler was called.
func TestTasksTellTheirInstants(t *testing.T) {
	onEach(t, func(t *testing.T, over transport) {
		engine, stop := over.open(t, t.TempDir(), longLease)
		defer stop()
		seen := make(chan pawl.Task, 1)
		before := time.Now().Truncate(time.Millisecond)
		require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, single)}, nil))
		defer workOver(t, over, "ann", 1, pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
			seen <- task
			return nil, nil
		}})()
		task, now := <-seen, time.Now()
		require.False(t, task.DispatchedAt.Before(before), "%v is before %v", task.DispatchedAt, before)
		require.False(t, task.BeganAt.Before(task.DispatchedAt), "%v is before %v", task.BeganAt, task.DispatchedAt)
		require.False(t, task.BeganAt.After(now), "%v is after %v", task.BeganAt, now)
		_, err := engine.Wait(t.Context(), "r")
		require.NoError(t, err)
	})
}

// Errors, Snooze, panics and permanent failures are those of a handler in the engine's process.
func TestWhatHandlersReturn(t *testing.T) {
	onEach(t, func(t *testing.T, over transport) {
		engine, stop := over.open(t, t.TempDir(), longLease)
		defer stop()
		var calls atomic.Int64
		defer workOver(t, over, "ann", 4, pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
			switch task.Run {
			case "panics":
				panic("no")
			case "permanent":
				return nil, pawl.TaskError{Code: "declined", Message: "no"}
			}
			switch calls.Add(1) {
			case 1:
				return nil, errors.New("not now")
			case 2:
				return nil, pawl.Snooze(10 * time.Millisecond)
			}
			return pawl.Result{Output: task.Attempt, Metadata: map[string]any{"who": "ann"}}, nil
		}})()
		for run, code := range map[string]string{"again": "", "panics": workflow.CodePanic, "permanent": "declined"} {
			out, err := engine.Run(t.Context(), workflow.Run{ID: workflow.RunID(run), Definition: define(t, single)}, nil)
			require.NoError(t, err)
			if code == "" {
				require.NoError(t, out.Err())
				require.NotNil(t, out.Output["a"])
			} else {
				require.Equal(t, code, out.Failure.Code)
			}
		}
		require.EqualValues(t, 3, calls.Load())
	})
}

// A run that is cancelled cancels what its workers hold, and they take others.
func TestACancelledRun(t *testing.T) {
	onEach(t, func(t *testing.T, over transport) {
		engine, stop := over.open(t, t.TempDir(), briefLease)
		defer stop()
		begun, cancelled := make(chan bool, 5), make(chan error, 5)
		defer workOver(t, over, "ann", 1, pawl.Handlers{"work": func(ctx context.Context, task pawl.Task) (any, error) {
			if task.Run != "r" {
				return "next", nil
			}
			begun <- true
			<-ctx.Done()
			cancelled <- task.Heartbeat(context.Background(), nil)
			return nil, ctx.Err()
		}})()
		require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, fanOut)}, items(5)))
		<-begun
		require.NoError(t, engine.Cancel(t.Context(), "r", "enough"))
		require.ErrorIs(t, <-cancelled, pawl.ErrStale)
		out, err := engine.Run(t.Context(), workflow.Run{ID: "s", Definition: define(t, single)}, nil)
		require.NoError(t, err)
		require.Equal(t, map[string]any{"a": "next"}, out.Output)
	})
}

// Once keeps its outcome over the attempts of a task, and details come back with the next.
func TestOnceAndDetails(t *testing.T) {
	onEach(t, func(t *testing.T, over transport) {
		engine, stop := over.open(t, t.TempDir(), longLease)
		defer stop()
		var effects atomic.Int64
		defer workOver(t, over, "ann", 1, pawl.Handlers{"work": func(ctx context.Context, task pawl.Task) (any, error) {
			kept, err := task.Once(ctx, "", func(context.Context) (any, error) { return effects.Add(1), nil })
			if err != nil {
				return nil, err
			}
			if task.Attempt == 1 {
				return nil, errors.Join(task.Heartbeat(ctx, map[string]any{"at": 7}), errors.New("again"))
			}
			return []any{kept, task.Details}, nil
		}})()
		out, err := engine.Run(t.Context(), workflow.Run{ID: "r", Definition: define(t, single)}, nil)
		require.NoError(t, err)
		require.NoError(t, out.Err())
		require.Equal(t, []any{int64(1), map[string]any{"at": int64(7)}}, out.Output["a"])
	})
}

// An outcome of Once that is too large to be kept, or to be sent, is an error of the handler: it is not asked for again and again.
func TestOnceOfWhatIsTooLarge(t *testing.T) {
	onEach(t, func(t *testing.T, over transport) {
		engine, stop := over.open(t, t.TempDir(), longLease)
		defer stop()
		for _, size := range []int{1<<20 + 1<<10, 3 << 20} {
			run := workflow.RunID(fmt.Sprint("r-", size))
			leave := workOver(t, over, fmt.Sprint("ann-", size), 1, pawl.Handlers{"work": func(ctx context.Context, task pawl.Task) (any, error) {
				_, err := task.Once(ctx, "", func(context.Context) (any, error) { return strings.Repeat("x", size), nil })
				return err != nil, nil
			}})
			out, err := engine.Run(t.Context(), workflow.Run{ID: run, Definition: define(t, single)}, nil)
			require.NoError(t, err)
			require.NoError(t, out.Err())
			require.Equal(t, true, out.Output["a"])
			leave()
		}
	})
}

// The engine is closed while a worker is at a task and opened again: the result counts, and the
// task is not executed again.
func TestARestartOfTheEngine(t *testing.T) {
	onEach(t, func(t *testing.T, over transport) {
		dir := t.TempDir()
		engine, stop := over.open(t, dir, longLease)
		begun, finish := make(chan bool, 3), make(chan bool)
		var calls atomic.Int64
		defer workOver(t, over, "ann", 3, pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
			calls.Add(1)
			begun <- true
			<-finish
			return task.Input.(map[string]any)["n"], nil
		}})()
		require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, fanOut)}, items(3)))
		for range 3 {
			<-begun
		}
		require.Eventually(t, func() bool {
			for token, err := range engine.Tokens(t.Context(), "r", pawl.TokenFilter{}) {
				if err == nil && token.Worker == "ann" {
					return true
				}
			}
			return false
		}, time.Minute, 10*time.Millisecond, "the engine shows who is at it")
		stop()
		_, direct := over.(*overHTTP)
		if !direct { // its stream keeps the results meanwhile
			close(finish)
		}
		engine, stop = over.open(t, dir, longLease)
		defer stop()
		if direct { // it refuses results of tasks that the engine has not dispatched again
			require.Eventually(t, func() bool { return over.queued(t) == 3 }, time.Minute, time.Millisecond)
			close(finish)
		}
		requireResults(t, engine, 3)
		require.EqualValues(t, 3, calls.Load())
	})
}
