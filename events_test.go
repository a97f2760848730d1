package pawl_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

func eventsOf(t *testing.T, e *pawl.Engine, id workflow.RunID, typ pawl.EventType) (out []pawl.Event) {
	t.Helper()
	for ev, err := range e.Events(t.Context(), id, pawl.EventsOptions{}) {
		require.NoError(t, err)
		if ev.Type == typ {
			out = append(out, ev)
		}
	}
	return out
}

// A program that has nothing but the events of a run knows its branches, can deliver results,
// and knows how many tokens a join and an end withdrew.
func TestEventsTellBranches(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }}})
	def := define(t, `{name: quorum, start: split, nodes: [{id: split}, {id: work, task: work}, {id: after, task: after}], transitions: [
		{from: split, to: work, siblingGroup: g, spawnCount: 3},
		{from: work, to: after, synchronization: {siblingGroup: g, strategy: any, remaining: cancel}}]}`)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: def}, nil))
	fanned := eventsOf(t, e, "r", workflow.EventFanOutStarted)[0]
	require.Equal(t, int64(2), fanned.Data["first"])
	dispatched := eventsOf(t, e, "r", workflow.EventTaskDispatched)
	require.Len(t, dispatched, 3)
	for i, ev := range dispatched {
		require.Equal(t, fanned.Group, ev.Group)
		require.Equal(t, int64(i), ev.Data["branch"])
		require.Equal(t, fanned.Data["first"].(int64)+int64(i), int64(ev.Token))
	}
	require.NoError(t, e.Complete(t.Context(), pawl.Key(dispatched[1].Data["key"].(string)), pawl.Result{Metadata: map[string]any{"branch": "mine"}}))
	require.Equal(t, map[string]any{"branch": "mine"}, eventsOf(t, e, "r", workflow.EventTaskCompleted)[0].Data)
	require.Equal(t, int64(2), eventsOf(t, e, "r", workflow.EventFanInCompleted)[0].Data["withdrawn"])
	require.NoError(t, e.Cancel(t.Context(), "r", "enough"))
	require.Equal(t, int64(1), eventsOf(t, e, "r", workflow.EventWorkflowCancelled)[0].Data["withdrawn"])
}

// A time-out says how long it was waited, also when no engine was there to look in time.
func TestTimeoutsTellWhatElapsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		options := pawl.Options{Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }}}
		e := open(t, dir, options)
		def := define(t, `{name: late, start: a, timeout: 1h, nodes: [{id: a, task: work, timeout: 10s, retry: {maxAttempts: 2, initialInterval: 1s}},
			{id: b, task: work, heartbeat: 20s}, {id: c, wait: {event: e}, timeout: 30s}, {id: d, wait: {event: e}}], transitions: [
			{from: a, to: b, outcome: error, errors: [timeout]}, {from: b, to: c, outcome: error, errors: [heartbeat_timeout]}, {from: c, to: d, outcome: error, errors: [timeout]}]}`)
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: def}, nil))
		<-time.After(15 * time.Second) // of the bubble
		require.Equal(t, int64(10_000), eventsOf(t, e, "r", workflow.EventTaskRetrying)[0].Data["elapsedMs"])
		require.NoError(t, e.Close(t.Context()))
		<-time.After(15 * time.Second)
		e = open(t, dir, options)
		out, err := e.Wait(t.Context(), "r")
		require.NoError(t, err)
		require.Equal(t, workflow.RunTimedOut, out.Status)
		var elapsed []any
		for _, ev := range eventsOf(t, e, "r", workflow.EventTokenTimedOut) {
			elapsed = append(elapsed, ev.Data["elapsedMs"])
		}
		require.Equal(t, []any{int64(19_000), int64(20_000), int64(30_000)}, elapsed)
		require.Equal(t, int64(3_600_000), eventsOf(t, e, "r", workflow.EventWorkflowTimedOut)[0].Data["elapsedMs"])
		require.NoError(t, e.Close(t.Context()))
	})
}
