package pawl

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/workflow"
)

// An attempt that is withdrawn at the moment at which it says that its result
// comes later is over twice. Its blobs are let go once: others may have the same.
func TestAnAttemptIsForgottenOnce(t *testing.T) {
	e := &Engine{}
	d := newDispatcher(context.Background(), e, 1)
	task := waitingTask("a", 1, 0)
	a := attemptOf(&task.Dispatch)
	d.held[a] = task
	d.latest[outKey{task.Run, task.Token}] = task
	d.pinBlob(Key(a.Name()+".mac"), "hash")
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
	require.Empty(t, e.dispatcher.latest)
	require.NoError(t, e.Close(t.Context()))
}
