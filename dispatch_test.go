package pawl

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// An attempt that is withdrawn at the moment at which it says that its result
// comes later is over twice. Its blobs are let go once: others may have the same.
func TestAnAttemptIsForgottenOnce(t *testing.T) {
	e := &Engine{}
	d := newDispatcher(context.Background(), e, 1)
	task := waitingTask("a", 1, 0)
	task.key = "k"
	d.held[task.key] = task
	d.latest[outKey{task.Run, task.Token}] = task
	d.pin("k", "hash")
	e.pinned.add("hash") // by somebody else
	d.forget(task)
	d.forget(task)
	remove := func() (bool, error) { return true, nil }
	gone, err := e.pinned.collect("hash", remove)
	require.NoError(t, err)
	require.False(t, gone)
	e.pinned.drop("hash")
	gone, err = e.pinned.collect("hash", remove)
	require.NoError(t, err)
	require.True(t, gone)
}
