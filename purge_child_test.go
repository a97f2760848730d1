package pawl_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/workflow"
)

const (
	caller = "name: caller\nstart: call\nnodes: [{id: call, subworkflow: {name: callee}, input: {n: input.n}, output: {output.n: result.n}}]\n"
	callee = "name: callee\nstart: work\nnodes: [{id: work, task: work, input: {n: input.n}, output: {output.n: result}}]\n"
)

// The message of a child to a parent that is purged does not reach the run that
// has the parent's id next: Purge waits until it is told.
func TestChildMessagesDoNotOutliveAPurge(t *testing.T) {
	for _, point := range []string{"child.want", "child.cancel", "child.ended"} {
		t.Run(point, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { purgeDuring(t, point) })
		})
	}
}

func purgeDuring(t *testing.T, point string) {
	reached, goOn := make(chan struct{}), make(chan struct{})
	var first sync.Once
	hook := &testhook.Hook{}
	hook.OnHit(func(name string) {
		if name == point {
			first.Do(func() { close(reached); <-goOn })
		}
	})
	e := openWith(t, hook, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": func(ctx context.Context, task pawl.Task) (any, error) {
		if point == "child.cancel" && task.Run == "a/1.1" && len(reached) == 0 {
			select {
			case <-ctx.Done(): // the parent does not want it any more
				return nil, context.Cause(ctx)
			case <-goOn:
			}
		}
		return double(ctx, task)
	}}})
	publish(t, e, define(t, callee))
	run := workflow.Run{ID: "a", Definition: define(t, caller)}
	require.NoError(t, e.Start(t.Context(), run, map[string]any{"n": 1}))
	if point == "child.cancel" {
		synctest.Wait() // the child has begun
		require.NoError(t, e.Cancel(t.Context(), "a", ""))
	}
	<-reached
	require.NoError(t, e.Cancel(t.Context(), "a", ""))
	if point == "child.cancel" { // the child goes on until it hears of it
		require.ErrorIs(t, e.Purge(t.Context(), "a"), pawl.ErrNotEnded)
	} else {
		ctx, cancel := context.WithCancel(t.Context())
		purged := make(chan error, 1)
		go func() { purged <- e.Purge(ctx, "a") }()
		synctest.Wait()
		require.Empty(t, purged, "a message is on its way")
		cancel()
		require.ErrorIs(t, <-purged, context.Canceled)
	}
	close(goOn)
	synctest.Wait() // a child that was begun is cancelled
	require.NoError(t, e.Purge(t.Context(), "a"))

	out, err := e.Run(t.Context(), run, map[string]any{"n": 10})
	require.NoError(t, err)
	require.NoError(t, out.Err())
	require.Equal(t, map[string]any{"n": int64(20)}, out.Output)
}
