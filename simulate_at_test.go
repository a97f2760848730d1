package pawl_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// A copy of the past is the run as it was then, and goes on from there.
func TestSimulateAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, key := waiting(t)
		synctest.Wait() // the handler has returned
		require.NoError(t, e.Complete(t.Context(), key, map[string]any{"score": 0.71}))
		require.NoError(t, e.Vote(t.Context(), pawl.Target{Run: "r", Node: "approve"}, workflow.Ballot{By: "bob", Approved: true}))
		_, err := e.Patch(t.Context(), "r", pawl.Patch{Base: 1, Ops: []any{map[string]any{"op": "remove", "path": "/nodes/ship/task"}}})
		require.NoError(t, err)
		now, err := e.Inspect(t.Context(), "r")
		require.NoError(t, err)

		rec, err := e.Recording(t.Context(), "r")
		require.NoError(t, err)
		stepper, err := replay.NewStepper(rec)
		require.NoError(t, err)
		for seq := int64(1); seq <= now.Seq; seq++ {
			sim, err := e.SimulateAt(t.Context(), "r", seq)
			require.NoError(t, err)
			f, err := stepper.At(seq)
			require.NoError(t, err)
			o := sim.Overview()
			require.Equal(t, []any{f.Status, f.Seq, len(f.Tokens)}, []any{o.Status, o.Seq, o.Live})
			require.True(t, f.At.Equal(sim.Now()))
		}
		sim, err := e.SimulateAt(t.Context(), "r", now.Seq)
		require.NoError(t, err)
		require.Equal(t, now, sim.Snapshot())
		d, revision, err := sim.Definition()
		require.NoError(t, err)
		require.Equal(t, 2, revision)
		require.Empty(t, d.Nodes[2].Task)

		sim, err = e.SimulateAt(t.Context(), "r", 1)
		require.NoError(t, err)
		d, revision, err = sim.Definition()
		require.NoError(t, err)
		require.Equal(t, 1, revision)
		require.Equal(t, "ship", d.Nodes[2].Task)
		require.NoError(t, sim.Do(t.Context(), pawl.Complete{Key: key, Output: map[string]any{"score": 0.99}}))
		require.Equal(t, workflow.NodeID("ship"), sim.Overview().Nodes[1].Node)

		for _, none := range []int64{-1, 0, now.Seq + 1} {
			_, err = e.SimulateAt(t.Context(), "r", none)
			require.ErrorIs(t, err, pawl.ErrInvalid)
		}
		_, err = e.SimulateAt(t.Context(), "none", 1)
		require.ErrorIs(t, err, pawl.ErrRunNotFound)
		require.NoError(t, e.Close(t.Context()))
	})
}

// A copy of a fork as of a record before that which made it is of the run that was forked.
func TestSimulateAtBeforeAFork(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, chain)}, nil))
	require.NoError(t, e.Fork(t.Context(), "a", "b", pawl.ForkOptions{}))
	for _, record := range []int64{1, 2} {
		sim, err := e.SimulateAt(t.Context(), "b", record)
		require.NoError(t, err)
		s := sim.Snapshot()
		require.Equal(t, sourceAt(record), s.Run)
		require.Equal(t, record > 1, s.ForkedFrom.Run == "a")
		require.NoError(t, sim.Do(t.Context(), pawl.Skip{Target: pawl.Target{Node: "a"}}))
		require.NoError(t, sim.Do(t.Context(), pawl.Complete{Key: sim.Snapshot().Tokens[1].Key, Output: 7}))
		require.Equal(t, map[string]any{"b": int64(7)}, sim.Snapshot().Output)
	}
}

// sourceAt is whose the records of fork b are in TestSimulateAtBeforeAFork.
func sourceAt(record int64) workflow.RunID {
	if record == 1 {
		return "a"
	}
	return "b"
}
