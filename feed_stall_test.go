package pawl_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// A run that stands still because the outbox is full has not stalled: neither while it waits, nor when
// there is room again and its next task is at work. A run that waits for a task that never answers
// fails when there is room.
func TestStallsWhileTheFeedIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &listener{fail: away}
		slow := pawl.Handlers{
			"slow": func(context.Context, pawl.Task) (any, error) { <-time.After(40 * time.Second); return nil, nil },
			"lost": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending },
		}
		e := open(t, t.TempDir(), pawl.Options{Executor: slow, StallAfter: time.Minute, Feed: pawl.FeedOptions{To: l, MaxBytes: 4000}})
		start := func(id, task string) {
			d := define(t, "name: w\nstart: a\nnodes: [{id: a, task: "+task+"}, {id: b, task: "+task+"}]\ntransitions: [{from: a, to: b}]\n")
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(id), Definition: d}, nil))
		}
		start("lost", "lost")
		n := 0
		for ; ; n++ {
			s, err := e.Stats(t.Context())
			require.NoError(t, err)
			if s.Feed.Full {
				break
			}
			start(fmt.Sprint("r", n), "slow")
			synctest.Wait()
		}
		require.Greater(t, n, 2)
		<-time.After(10 * time.Minute)
		for id := range e.Runs(t.Context(), pawl.RunFilter{}) {
			require.Equal(t, workflow.RunRunning, id.Status, "nothing is committed: %s", id.Run)
		}
		l.setFail(nil)
		for i := range n {
			out, err := e.Wait(t.Context(), workflow.RunID(fmt.Sprint("r", i)))
			require.NoError(t, err)
			require.NoError(t, out.Err())
		}
		out, err := e.Wait(t.Context(), "lost")
		require.NoError(t, err)
		require.Equal(t, workflow.CodeStalled, out.Failure.Code)
	})
}
