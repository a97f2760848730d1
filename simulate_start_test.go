package pawl_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/workflow"
)

// decided are the records of a journal, or of a simulation, as they are told apart: by what
// was decided, and the events.
func decided(t *testing.T, steps []pawl.SimulatedStep) (out []string) {
	t.Helper()
	for _, s := range steps {
		for _, d := range s.Record.Decisions {
			out = append(out, d.String())
		}
	}
	return out
}

func journalFrom(t *testing.T, e *pawl.Engine, id workflow.RunID, from int64) (out []pawl.SimulatedStep) {
	t.Helper()
	for r, err := range e.Journal(t.Context(), id) {
		require.NoError(t, err)
		if r.Seq >= from {
			out = append(out, pawl.SimulatedStep{Record: r})
		}
	}
	return out
}

// A simulated Start decides what Start decides, and leaves nothing behind.
func TestSimulateStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }}})
		run := workflow.Run{ID: "r", Tenant: "ann", Labels: map[string]string{"k": "v"}, Definition: define(t, `
name: two
start: split
nodes: [{id: split}, {id: work, task: work, input: {n: n}}, {id: join, wait: {for: 1h}}]
transitions: [{from: split, to: work, foreach: {collection: input.of, as: n}, siblingGroup: g}, {from: work, to: join, synchronization: {siblingGroup: g}}]
`)}
		input := map[string]any{"of": []int{1, 2}}
		sim, err := e.SimulateStart(t.Context(), run, input)
		require.NoError(t, err)
		_, err = e.Summary(t.Context(), "r")
		require.ErrorIs(t, err, pawl.ErrRunNotFound)
		would, brief := sim.Snapshot(), sim.Summary()
		require.Equal(t, []any{"two", "ann", run.Labels, int64(1)}, []any{would.Workflow, would.Tenant, would.Labels, would.Seq})
		require.Len(t, sim.Steps(), 1)

		require.NoError(t, e.Start(t.Context(), run, input))
		synctest.Wait() // the handlers have returned
		require.Equal(t, decided(t, journalFrom(t, e, "r", 1)), decided(t, sim.Steps()))
		told, err := e.Summary(t.Context(), "r")
		require.NoError(t, err)
		require.Equal(t, told, brief)
		is, err := e.Inspect(t.Context(), "r")
		require.NoError(t, err)
		for i := range is.Tokens { // keys are of the life of the engine, and of this run
			require.Equal(t, is.Tokens[i], would.Tokens[i])
		}

		// It goes on as any copy does.
		require.NoError(t, sim.Play(t.Context(), pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) { return task.Input.(map[string]any)["n"], nil }}))
		require.Equal(t, workflow.RunRunning, sim.Snapshot().Status)

		// The same run is there: nothing would be decided. Another one is refused.
		sim, err = e.SimulateStart(t.Context(), run, input)
		require.NoError(t, err)
		require.Empty(t, sim.Steps())
		_, err = e.SimulateStart(t.Context(), run, map[string]any{"of": []int{1}})
		require.ErrorIs(t, err, pawl.ErrRunExists)
		run.ID = "a/b"
		_, err = e.SimulateStart(t.Context(), run, input)
		require.ErrorIs(t, err, pawl.ErrInvalid)
		_, err = e.SimulateStart(t.Context(), workflow.Run{ID: "x", Workflow: "none"}, nil)
		require.ErrorIs(t, err, pawl.ErrNotPublished)
	})
}

// A simulated Fork or Rerun decides what Fork or Rerun decides.
func TestSimulateFork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, key := waiting(t)
		require.NoError(t, e.Complete(t.Context(), key, map[string]any{"score": 0.71}))
		last, err := e.Summary(t.Context(), "r")
		require.NoError(t, err)
		for at := int64(1); at <= last.Seq; at++ {
			to, o := workflow.RunID("f"+string(rune('0'+at))), pawl.ForkOptions{At: at, InFlight: workflow.InFlightPark}
			sim, err := e.SimulateFork(t.Context(), "r", to, o)
			require.NoError(t, err)
			_, err = e.Summary(t.Context(), to)
			require.ErrorIs(t, err, pawl.ErrRunNotFound)
			require.NoError(t, e.Fork(t.Context(), "r", to, o))
			require.Equal(t, decided(t, journalFrom(t, e, to, at+1)), decided(t, sim.Steps()))
			synctest.Wait() // the handlers have returned
			is, err := e.Inspect(t.Context(), to)
			require.NoError(t, err)
			would := sim.Snapshot()
			require.Equal(t, []any{is.Status, is.ForkedFrom, is.Tokens, is.Seq}, []any{would.Status, would.ForkedFrom, would.Tokens, would.Seq})
			sim, err = e.SimulateFork(t.Context(), "r", to, o)
			require.NoError(t, err)
			require.Empty(t, sim.Steps(), "it is there")
		}
		sim, err := e.SimulateRerun(t.Context(), pawl.Target{Run: "r", Node: "check"}, "again", pawl.ForkOptions{})
		require.NoError(t, err)
		require.NoError(t, e.Rerun(t.Context(), pawl.Target{Run: "r", Node: "check"}, "again", pawl.ForkOptions{}))
		require.Equal(t, decided(t, journalFrom(t, e, "again", sim.Steps()[0].Record.Seq)), decided(t, sim.Steps()))

		_, err = e.SimulateRerun(t.Context(), pawl.Target{Run: "r"}, "x", pawl.ForkOptions{})
		require.ErrorIs(t, err, pawl.ErrInvalid)
		_, err = e.SimulateFork(t.Context(), "r", "x", pawl.ForkOptions{At: 99})
		forked := (*pawl.ForkError)(nil)
		require.ErrorAs(t, err, &forked)
		_, err = e.SimulateFork(t.Context(), "none", "x", pawl.ForkOptions{})
		require.ErrorIs(t, err, pawl.ErrRunNotFound)
		_, err = e.SimulateFork(t.Context(), "r", "r", pawl.ForkOptions{})
		require.ErrorIs(t, err, pawl.ErrRunExists)
	})
}

// A fork is tried as of one instant, as it is made, whatever the clock does meanwhile.
func TestSimulateForkAtOneInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := &testhook.Hook{}
		e := openWith(t, hook, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }}})
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, oneTask)}, map[string]any{"n": 1}))
		synctest.Wait() // its handler has returned
		var looks atomic.Int64
		hook.OnNow(func() time.Time { return time.Now().Add(time.Duration(looks.Add(1)) * time.Millisecond) })
		sim, err := e.SimulateFork(t.Context(), "r", "f", pawl.ForkOptions{})
		require.NoError(t, err)
		require.Contains(t, decided(t, sim.Steps()), "fork-run run=f from=r record=1")
	})
}
