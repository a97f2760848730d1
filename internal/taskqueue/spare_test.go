package taskqueue

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheQueueUsesWhatItForgot: a run that comes and goes with each of its tasks makes nothing anew, and what many runs have
// left is not kept for ever.
func TestTheQueueUsesWhatItForgot(t *testing.T) {
	q := New[struct{}](Options{Most: 10})
	task := waitingTask("a", 1, 0)
	pass := func() {
		q.Put(task)
		require.Same(t, task, q.Take())
		q.Release(task)
		q.ResultReturned(task)
		q.ResultDelivered(task.Run)
	}
	pass()
	require.Empty(t, q.runs)
	run, lane, tenant := q.spareRuns.of[0], q.spareLanes.of[0], q.spareTenants.of[0]
	require.Zero(t, run.id)
	require.Nil(t, lane.run)
	require.Nil(t, tenant.lane)
	pass()
	require.Same(t, run, q.spareRuns.of[0])
	require.Same(t, lane, q.spareLanes.of[0])
	require.Same(t, tenant, q.spareTenants.of[0])
	require.Len(t, q.spareRuns.of, 1)

	var s spares[int]
	for n := range 2 * maxSpares {
		s.addSpare(new(int), n)
	}
	require.Len(t, s.of, maxSpares)
	require.Equal(t, maxSpares-1, *s.takeSpare())
}
