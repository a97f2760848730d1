package pawl_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/workflow"
)

const snoozing = "name: one\nstart: w\nnodes: [{id: w, task: w, output: {output.calls: result.calls}}]\n"

// A snooze is as long as it asks for, within its bounds, also where it is wrapped.
func TestSnoozeIsBounded(t *testing.T) {
	for asked, delay := range map[time.Duration]time.Duration{
		0: pawl.MinSnooze, -time.Hour: pawl.MinSnooze, 20 * time.Millisecond: pawl.MinSnooze,
		time.Minute: time.Minute, 1 << 62: pawl.MaxSnooze,
	} {
		for name, err := range map[string]error{"plain": pawl.Snooze(asked), "wrapped": fmt.Errorf("not there: %w", pawl.Snooze(asked))} {
			t.Run(fmt.Sprint(asked, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					require.False(t, pawl.IsPermanent(err))
					var began []time.Time
					hook := &testhook.Hook{}
					hook.SetMaxNap(2 * pawl.MaxSnooze) // otherwise the engine looks at the clock every minute of them
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
