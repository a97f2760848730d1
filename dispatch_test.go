package pawl

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/taskkey"
	"github.com/pawl-run/pawl/workflow"
)

// An attempt that is withdrawn at the moment at which it says that its result
// comes later is over twice. Its blobs are let go once: others may have the same.
func TestAnAttemptIsForgottenOnce(t *testing.T) {
	e := &Engine{}
	d := newDispatcher(context.Background(), e, 1)
	task := waitingTask("a")
	d.holdTask(task)
	d.pinBlob(Key(attemptOf(&task.Dispatch).Name()+".mac"), "hash")
	e.pinned.pinBlobs("hash") // by somebody else
	d.forgetTask(task)
	d.forgetTask(task)
	remove := func() (bool, error) { return true, nil }
	gone, err := e.pinned.collectBlob("hash", remove)
	require.NoError(t, err)
	require.False(t, gone)
	e.pinned.unpinBlobs("hash")
	gone, err = e.pinned.collectBlob("hash", remove)
	require.NoError(t, err)
	require.True(t, gone)
}

// Whichever attempts are held and forgotten, each is found as long as it is held, and the newest of a token is the one
// that was held last, or none.
func TestAttemptsAreFoundWhileTheyAreHeld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDispatcher(context.Background(), &Engine{}, 1)
		held, newest := map[taskkey.Attempt]*outTask{}, map[workflow.TokenID]*outTask{}
		var ever []*outTask
		for n := range rapid.IntRange(1, 30).Draw(t, "acts") {
			if len(ever) > 0 && rapid.Bool().Draw(t, "forgets") {
				task := rapid.SampledFrom(ever).Draw(t, "task")
				d.forgetTask(task)
				delete(held, attemptOf(&task.Dispatch))
				if newest[task.Token] == task {
					delete(newest, task.Token)
				}
			} else {
				task := waitingTask("a")
				task.Token, task.Attempt = workflow.TokenID(rapid.IntRange(1, 2).Draw(t, "token")), n+1
				d.holdTask(task)
				ever, held[attemptOf(&task.Dispatch)], newest[task.Token] = append(ever, task), task, task
			}
			for _, task := range ever {
				require.True(t, held[attemptOf(&task.Dispatch)] == d.heldAttempt(attemptOf(&task.Dispatch)))
				require.True(t, newest[task.Token] == d.newestAttempt("a", task.Token))
			}
			require.Len(t, slices.Collect(d.allHeld), len(held))
			require.Equal(t, len(held), d.count)
		}
	})
}

// An attempt that is withdrawn while its handler runs, and says then that its result
// comes later, is over: nothing is kept of it.
func TestAnAttemptIsForgottenThoughItSaysPending(t *testing.T) {
	began := make(chan struct{})
	e, err := Open(t.Context(), t.TempDir(), Options{Executor: Handlers{"*": func(ctx context.Context, _ Task) (any, error) {
		close(began)
		<-ctx.Done()
		return nil, ErrPending
	}}})
	require.NoError(t, err)
	d := &workflow.Definition{Name: "w", Start: "a", Nodes: []workflow.Node{{ID: "a", Task: "t"}}}
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: d}, nil))
	<-began
	require.NoError(t, e.Cancel(t.Context(), "a", ""))
	e.dispatcher.group.Wait()
	require.Empty(t, e.dispatcher.held)
	require.NoError(t, e.Close(t.Context()))
}

// waitingTask returns an attempt of a run.
func waitingTask(run workflow.RunID) *outTask {
	t := &outTask{}
	t.Run, t.Node = run, &workflow.GraphNode{Node: &workflow.Node{}}
	return t
}
