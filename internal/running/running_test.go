package running

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// Tasks of a run are out from its start on, but not while it is suspended, and not in an engine that performs none.
func TestWhenTasksAreOut(t *testing.T) {
	d, err := workflow.ParseYAML([]byte("name: w\nstart: a\nnodes: [{id: a, task: t}]"))
	require.NoError(t, err)
	g, err := compiled.Compile(workflow.Bounds{}, d)
	require.NoError(t, err)
	s := state.NewState("r", g)
	works, still := &Runs{}, &Runs{o: Options{Still: true}}
	require.False(t, works.hasTasks(s))
	for _, step := range []struct {
		m    state.Message
		want bool
	}{
		{state.Start{Input: map[string]any{}}, true}, {state.Pause{}, true}, {state.Suspend{Cause: "a fault"}, false}, {state.Resume{}, true},
	} {
		now := time.UnixMilli(0)
		plan, err := planning.Step(s, step.m, now)
		require.NoError(t, err)
		r := decision.Record{Seq: 1, At: now, Message: step.m, Decisions: plan.Decisions}
		for _, d := range plan.Decisions {
			decision.ApplyTo(nil, s, d, &r)
		}
		require.Equal(t, step.want, works.hasTasks(s), s.Status)
		require.False(t, still.hasTasks(s))
	}
}
