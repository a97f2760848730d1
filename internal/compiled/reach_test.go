package compiled_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/workflow"
)

func compileYAML(t *testing.T, text string) *compiled.Graph {
	t.Helper()
	d, err := workflow.ParseYAML([]byte(text))
	require.NoError(t, err)
	g, err := compiled.Compile(workflow.Bounds{}, d)
	require.NoError(t, err)
	return g
}

// reachers lists the nodes from which incoming transition i of j can be taken.
func reachers(g *compiled.Graph, i int, enclosing ...string) string {
	var out []string
	set := g.ReachWithin(g.Node("j"), i, enclosing)
	for id, n := range g.Nodes {
		if set.Has(n) {
			out = append(out, string(id))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// A path ends where it leaves the branch, unless it has fanned the group out anew
// before.
func TestReachWithin(t *testing.T) {
	g := compileYAML(t, `
name: loop
start: s
nodes: [{id: s}, {id: a}, {id: x}, {id: j, join: synchronize}, {id: z}, {id: last}]
transitions:
  - {from: s, to: a, siblingGroup: g, spawnCount: 2}
  - {from: a, to: j}
  - {from: a, to: x}
  - {from: x, to: z, synchronization: {siblingGroup: g}}
  - {from: j, to: z, synchronization: {siblingGroup: g}}
  - {from: z, to: s, loop: {maxIterations: 1}}
  - {from: z, to: last, priority: 1}`)
	require.Equal(t, "a j s x z", reachers(g, 0))
	require.Equal(t, "a s z", reachers(g, 0, "g"))
	require.Equal(t, "a j s x z", reachers(g, 0, "unknown"))
	require.Empty(t, reachers(g, 1, "g"), "there is no such transition")

	g = compileYAML(t, `
name: inner
start: s
nodes: [{id: s}, {id: a}, {id: b}, {id: w}, {id: z}, {id: j, join: synchronize}]
transitions:
  - {from: s, to: a, siblingGroup: g, spawnCount: 1}
  - {from: a, to: j}
  - {from: a, to: b}
  - {from: b, to: w, siblingGroup: g, spawnCount: 1}
  - {from: w, to: z, synchronization: {siblingGroup: g}}
  - {from: z, to: j}`)
	require.Equal(t, "a b s z", reachers(g, 1, "g"), "w itself would leave the branch, b fans out within it")
	require.Equal(t, "a b s w z", reachers(g, 1))
}

// BenchmarkReachWithin is what a plan costs more if a token waits at a synchronizing
// join in a branch, in a definition of the largest size.
func BenchmarkReachWithin(b *testing.B) {
	d := &workflow.Definition{Name: "large", Start: "s", Nodes: []workflow.Node{{ID: "s"}, {ID: "j", Join: workflow.JoinSynchronize}, {ID: "z"}}}
	last := workflow.NodeID("s")
	for i := range 9_990 {
		id := workflow.NodeID(fmt.Sprint("n", i))
		d.Nodes = append(d.Nodes, workflow.Node{ID: id})
		t := workflow.Transition{From: last, To: id}
		if i == 0 {
			t.SpawnCount, t.SiblingGroup = 2, "g"
		}
		d.Transitions = append(d.Transitions, t)
		last = id
	}
	d.Transitions = append(d.Transitions, workflow.Transition{From: last, To: "j"},
		workflow.Transition{From: "j", To: "z", Synchronization: &workflow.Synchronization{SiblingGroup: "g"}})
	g, err := compiled.Compile(workflow.Bounds{}, d)
	require.NoError(b, err)
	for b.Loop() {
		g.ReachWithin(g.Node("j"), 0, []string{"g"})
	}
}
