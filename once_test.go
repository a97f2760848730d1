package pawl_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

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
