package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/workflow"
)

func TestSelfpatch(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // the second time nothing is left to do
		var stdout bytes.Buffer
		require.NoError(t, run(t.Context(), []string{dir}, &stdout, t.Output()))
		require.Equal(t, `revision 1: think, ask, write; may ask researcher
revision 2: think, ask, write, proofread; may ask researcher, critic
event  7: asks the researcher
event 15: asks the researcher
event 20: patches its run: revision 2
event 24: asks the critic
page: Tea draws for three minutes. Tea bags draw for ten minutes. Ten minutes is too long: three are enough for both.
`, stdout.String())
	}
}

// A task that is performed again, after it has patched its run, patches it no further.
func TestHireAgain(t *testing.T) {
	require.Equal(t, 2, playAgent(t, func(ctx context.Context, a *agent, in thought) (move, error) {
		if _, err := a.chooseMove(ctx, in); err != nil {
			return move{}, err
		}
		return a.chooseMove(ctx, in)
	}))
}

// A patch by somebody else is not taken for that of the agent.
func TestHireAfterAnotherPatch(t *testing.T) {
	require.Equal(t, 3, playAgent(t, func(ctx context.Context, a *agent, in thought) (move, error) {
		if len(in.Notes) == 2 {
			longer := map[string]any{"op": "replace", "path": "/nodes/think/timeout", "value": "2m"}
			if _, err := a.engine.Patch(ctx, pawl.TaskFrom(ctx).Run, pawl.Patch{Base: 1, Ops: []any{longer}}); err != nil {
				return move{}, err
			}
		}
		return a.chooseMove(ctx, in)
	}))
}

// playAgent runs the agent with a task think, and returns the revision at which the run has ended.
func playAgent(t *testing.T, think func(context.Context, *agent, thought) (move, error)) (revision int) {
	a := &agent{opened: make(chan struct{})}
	var err error
	a.engine, err = pawl.Open(t.Context(), replays.Dir(t), pawl.Options{Executor: pawl.Handlers{
		"think": pawl.Typed(func(ctx context.Context, in thought) (move, error) { return think(ctx, a, in) }),
		"look":  pawl.Typed(look), "doubt": pawl.Typed(doubt), "write": pawl.Typed(writeAnswer), "proofread": pawl.Typed(proofread),
	}})
	require.NoError(t, err)
	close(a.opened)
	defer func() { require.NoError(t, a.engine.Close(t.Context())) }()
	require.NoError(t, a.publishAll(t.Context()))
	out, err := a.engine.Run(t.Context(), workflow.Run{ID: "played", Workflow: "agent"}, map[string]string{"goal": "tea"})
	require.NoError(t, err)
	require.NoError(t, out.Err())
	_, revision, err = a.engine.Definition(t.Context(), "played")
	require.NoError(t, err)
	return revision
}
