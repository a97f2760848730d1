package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/remote"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

// The pool stays, and the engine under it is closed and opened again: who works
// on a task goes on.
func TestAnEngineThatIsOpenedAgainUnderItsPool(t *testing.T) {
	dir := replays.Dir(t)
	h := start(t, dir, worker.Options{})
	defer func() { h.stop(t) }()
	def := define(t, "name: one\nstart: w\nnodes: [{id: w, task: work, output: {output.r: result}}]")
	require.NoError(t, h.engine.Start(t.Context(), workflow.Run{ID: "r", Definition: def}, nil))
	ann := h.client("ann")
	_, err := ann.Register(t.Context(), "work")
	require.NoError(t, err)
	polled, err := ann.Poll(t.Context(), time.Minute)
	require.NoError(t, err)
	task := polled.Tasks[0]
	require.NoError(t, h.engine.Close(context.Background()))
	drop, err := ann.Heartbeat(t.Context(), task.Key)
	require.NoError(t, err)
	require.Empty(t, drop)
	var e *worker.Error
	require.ErrorAs(t, ann.Complete(t.Context(), task, "ann", nil), &e)
	require.Equal(t, remote.CodeBusy, e.Code)

	h.engine, err = pawl.Open(t.Context(), dir, pawl.Options{Executor: h.pool, Durability: pawl.ProcessCrash})
	require.NoError(t, err)
	h.pool.Attach(h.engine)
	require.NoError(t, ann.Complete(t.Context(), task, "ann", nil))
	out, err := h.engine.Wait(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, "ann", out.Output["r"])
}
