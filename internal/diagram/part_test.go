package diagram

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/workflow"
)

// A part has what is chosen, or presses most, and what is nearest to it; edges that leave it are counted at their nodes.
func TestPart(t *testing.T) {
	def := &workflow.Definition{Name: "long", Start: "t0"}
	for i := range 50 {
		def.Nodes = append(def.Nodes, workflow.Node{ID: workflow.NodeID(fmt.Sprint("t", i)), Task: "work"})
		if i > 0 {
			def.Transitions = append(def.Transitions, workflow.Transition{From: def.Nodes[i-1].ID, To: def.Nodes[i].ID})
		}
	}
	g, err := compiled.Compile(workflow.Bounds{}, def)
	require.NoError(t, err)
	counts := func(done, running, failed workflow.NodeID) *Run {
		return &Run{Tokens: map[workflow.NodeID]map[workflow.TokenStatus]int{done: {workflow.Completed: 1}, running: {workflow.Dispatched: 1}, failed: {workflow.Failed: 1}}}
	}
	run := New(g, counts("t1", "t20", "t40"))
	assert.Same(t, run, run.Part(50, 49, ""))
	for _, c := range []struct {
		d      *Diagram
		most   int
		chosen workflow.NodeID
		want   []workflow.NodeID
	}{
		{run, 1, "", []workflow.NodeID{"t40"}},
		{run, 2, "", []workflow.NodeID{"t20", "t40"}},
		{run, 5, "", []workflow.NodeID{"t19", "t20", "t39", "t40", "t41"}},
		{run, 3, "t9", []workflow.NodeID{"t8", "t9", "t10"}},
		{run, 1, "nobody", []workflow.NodeID{"t40"}},
		{New(g, nil), 3, "", []workflow.NodeID{"t0", "t1", "t2"}},
	} {
		assert.Equal(t, c.want, c.d.Part(c.most, 1000, c.chosen).Nodes(), "%d around %q", c.most, c.chosen)
	}
	part := run.Part(3, 1000, "t9")
	assert.Contains(t, part.nodes[0].marks, "1 more →")
	assert.NotContains(t, part.nodes[1].marks, "1 more →")
	assert.Equal(t, []edge{{from: 0, to: 1}, {from: 1, to: 2}}, []edge{{from: part.edges[0].from, to: part.edges[0].to}, {from: part.edges[1].from, to: part.edges[1].to}})
	assert.NotContains(t, run.nodes[8].marks, "1 more →", "the whole stays as it is")
	checkXML(t, part.SVG(0))
}
