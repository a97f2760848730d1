package workflow_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/workflow"
)

// largeDefinition has n nodes in a chain, with bounded loops, groups, chords
// and a condition of its own on each of its 5n transitions.
func largeDefinition(n int) *workflow.Definition {
	d := &workflow.Definition{Name: "large", Start: "n0"}
	id := func(i int) workflow.NodeID { return workflow.NodeID(fmt.Sprintf("n%d", i)) }
	for i := range n {
		d.Nodes = append(d.Nodes, workflow.Node{ID: id(i), Task: "t", Input: map[string]string{"x": fmt.Sprintf("state.x%d", i)}})
	}
	for i := range n - 1 {
		group := fmt.Sprintf("g%d", i)
		d.Transitions = append(d.Transitions,
			workflow.Transition{From: id(i), To: id(i + 1), SiblingGroup: group},
			workflow.Transition{From: id(i + 1), To: id(min(i+2, n-1)), Synchronization: &workflow.Synchronization{SiblingGroup: group}},
			workflow.Transition{From: id(i), To: id(i - i%10), Condition: fmt.Sprintf("result.back == %d", i), Loop: &workflow.Loop{MaxIterations: 3}},
			workflow.Transition{From: id(i), To: id(min(i+7, n-1)), Condition: fmt.Sprintf("result.next > %d", i)},
			workflow.Transition{From: id(i), To: id(n - 1), Condition: fmt.Sprintf("result.error == 'e%d'", i)},
		)
	}
	return d
}

func BenchmarkCheck(b *testing.B) {
	for _, n := range []int{100, 1_000, limits.MaxNodes} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			d := largeDefinition(n)
			for b.Loop() {
				require.NoError(b, d.Validate())
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	for _, n := range []int{100, 1_000, limits.MaxNodes} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			d := largeDefinition(n)
			for b.Loop() {
				_, err := workflow.Compile(d)
				require.NoError(b, err)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	data, err := largeDefinition(limits.MaxNodes).MarshalJSON()
	require.NoError(b, err)
	for name, parse := range map[string]func([]byte) (*workflow.Definition, error){"json": workflow.ParseJSON, "yaml": workflow.ParseYAML} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				_, err := parse(data)
				require.NoError(b, err)
			}
		})
	}
}
