package planning_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// TestEndlessPlans: definitions that would go on for ever in one message fail
// in bounded time and memory.
func TestEndlessPlans(t *testing.T) {
	for name, c := range map[string]struct{ limit, yaml string }{
		"gateways": {"limit plan", `
name: x
start: a
nodes: [{id: a}, {id: z}]
transitions:
  - {from: a, to: z, condition: "count['a->a'] < 0"}
  - {from: a, to: z, id: other, condition: "count['a->a'] < 0"}
  - {from: a, to: a, loop: {maxIterations: 1000000}, priority: 1}
`},
		"groups within each other": {"limit nesting", `
name: x
start: a
nodes: [{id: a}, {id: b}, {id: z}]
transitions:
  - {from: a, to: b, siblingGroup: g}
  - {from: b, to: a, loop: {maxIterations: 1000000}}
  - {from: b, to: z, synchronization: {siblingGroup: g}, priority: 1}
`},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			plan, err := planning.Step(newPlayer(t, compile(t, c.yaml)).state, workflow.Start{}, dawn)
			require.NoError(t, err)
			require.Len(t, plan.Decisions, 2)
			require.Contains(t, plan.Decisions[1].String(), c.limit)
			require.LessOrEqual(t, len(plan.Trace), workflow.MaxNotes)
			require.Less(t, time.Since(begin), time.Minute)
		})
	}
}
