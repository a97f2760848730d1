package planning_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// TestStragglersBlockAfterRestart: a run whose group has fired very often is
// restored with the stragglers that block the next occurrence, whichever of the
// occurrences they are of.
func TestStragglersBlockAfterRestart(t *testing.T) {
	const n = 70 // occurrences of one group in one scope, and one more
	yaml := "name: x\nstart: s\nnodes: [{id: s}, {id: f}, {id: a, task: work}, {id: z}]\ntransitions:\n"
	for i := range n + 1 {
		yaml += fmt.Sprintf("  - {id: s%d, from: s, to: f}\n", i)
	}
	yaml += `
  - {from: f, to: a, spawnCount: 2, siblingGroup: g}
  - {from: a, to: z, synchronization: {siblingGroup: g, strategy: any, remaining: block, timeout: 1h}}
`
	p := newPlayer(t, compile(t, yaml))
	p.quick = true
	_, err := p.send(state.Start{})
	require.NoError(t, err)
	end := func(g workflow.GroupID, branch int) {
		require.NoError(t, p.complete(p.state.Group(g).TokenOf(branch), nil))
	}
	for g := workflow.GroupID(2); g <= n; g++ {
		end(g, 0)
		end(g, 1)
	}
	end(1, 0) // the first occurrence is the last to fire: its straggler blocks
	again := state.Restore(p.graph, p.state.AllRows())
	again.Epoch = p.state.Epoch
	end(n+1, 0)
	require.Equal(t, workflow.Gathering, p.state.Group(n+1).Phase)

	id := p.state.Group(n + 1).TokenOf(0)
	m := state.TaskCompleted{Token: id, Attempt: 1, Epoch: again.Epoch}
	plan, err := planning.Step(again, m, p.now.Add(time.Second))
	require.NoError(t, err)
	plan.Trace = nil
	require.Equal(t, "await-siblings t213 in=g71:0 via=a->z\narrive-branch g71:0\n", text(plan))
}
