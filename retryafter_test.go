package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// A task says how long its next attempt waits. For a time that is not to come the
// policy counts, and for one that is too far away the bound.
func TestRetryAfterTakesThePlaceOfThePolicysDelay(t *testing.T) {
	const policy = "name: one\nstart: w\nnodes: [{id: w, task: w, retry: {maxAttempts: 2, initialInterval: 1s, jitter: 0}}]\n"
	for after, delay := range map[time.Duration]time.Duration{
		0: time.Second, -time.Hour: time.Second, time.Minute: time.Minute, 20 * time.Millisecond: 20 * time.Millisecond,
		1 << 62: pawl.MaxRetryAfter,
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
