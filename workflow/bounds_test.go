package workflow_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// Bounds can be raised, and lowered; transitions that needs is short for count.
func TestBounds(t *testing.T) {
	d := &workflow.Definition{Name: "x", Mode: workflow.ModeDAG}
	for i := range limits.MaxNodes + 1 {
		d.Nodes = append(d.Nodes, workflow.Node{ID: workflow.NodeID(fmt.Sprint("n", i))})
	}
	_, err := workflow.Compile(d)
	require.ErrorContains(t, err, "10001 nodes are more than 10000")
	_, err = workflow.Bounds{Nodes: len(d.Nodes)}.Compile(d)
	require.NoError(t, err)

	small := &workflow.Definition{Name: "x", Mode: workflow.ModeDAG, Nodes: []workflow.Node{{ID: "a"}, {ID: "b", Needs: []workflow.NodeID{"a"}}, {ID: "c", Needs: []workflow.NodeID{"a", "b"}}}}
	_, err = workflow.Bounds{Transitions: 2}.Compile(small)
	require.ErrorContains(t, err, "3 transitions are more than 2")
	_, err = workflow.Bounds{Bytes: 20}.Compile(small)
	require.ErrorContains(t, err, "too_large")
	_, err = workflow.Bounds{Bytes: 20}.ParseYAML([]byte("name: x\nmode: dag\nnodes: []\n"))
	require.ErrorContains(t, err, "too_large")
}

// The graph has the transitions that needs stands for; the definition does not.
func TestNeeds(t *testing.T) {
	d := &workflow.Definition{Name: "x", Mode: workflow.ModeDAG, Nodes: []workflow.Node{{ID: "a"}, {ID: "b", Needs: []workflow.NodeID{"a", "a"}}}}
	g, err := workflow.Compile(d)
	require.NoError(t, err)
	full, err := compiled.Of(g)
	require.NoError(t, err)
	require.NotNil(t, full.Transition("a->b"))
	require.Len(t, full.Node("b").Incoming, 2)
	require.Empty(t, g.Definition.Transitions)
	hash, err := d.Hash()
	require.NoError(t, err)
	require.Equal(t, hash, g.Hash)
	data, err := g.Definition.MarshalJSON()
	require.NoError(t, err)
	again, err := compiled.Boundless().ParseJSON(data)
	require.NoError(t, err)
	other, err := compiled.Boundless().Compile(again)
	require.NoError(t, err)
	require.Equal(t, g.Hash, other.Hash)
}

// A dag of 20,000 nodes and 100,000 transitions is compiled, written and read again, in a time that goes with its size; at the
// level release it is five times as large.
func TestLargeDefinition(t *testing.T) {
	harness.RequireLevel(t, harness.Gate, "it takes seconds")
	n := harness.Figure(0, 20_000, 100_000)
	d := &workflow.Definition{Name: "x", Mode: workflow.ModeDAG}
	for i := range n {
		d.Nodes = append(d.Nodes, workflow.Node{ID: workflow.NodeID(fmt.Sprint("n", i)), Task: "t"})
		for k := 1; k <= 5 && i > 0; k++ {
			d.Transitions = append(d.Transitions, workflow.Transition{From: d.Nodes[max(i-k*k*k, 0)].ID, To: d.Nodes[i].ID})
		}
	}
	d.Transitions = append(d.Transitions, make([]workflow.Transition, 5)...)
	for i := range 5 {
		d.Transitions[len(d.Transitions)-5+i] = workflow.Transition{From: "n0", To: d.Nodes[n-1-i].ID}
	}
	require.Len(t, d.Transitions, 5*n)
	b := workflow.Bounds{Nodes: n, Transitions: 5 * n, Bytes: 128 << 20}
	g, err := compiled.Compile(b, d)
	require.NoError(t, err)
	require.Len(t, g.Transitions, 5*n)
	raw, err := g.Definition.MarshalJSON()
	require.NoError(t, err)
	again, err := b.ParseJSON(raw)
	require.NoError(t, err)
	hash, err := again.Hash()
	require.NoError(t, err)
	require.Equal(t, g.Hash, hash)
}

// Expressions beyond the bound are not compiled, however many there are.
func TestExpressionsAreBoundedTogether(t *testing.T) {
	d := &workflow.Definition{Name: "x", Start: "a", Nodes: []workflow.Node{{ID: "a", Task: "t", Input: map[string]string{}}}}
	for i := range 40 {
		d.Nodes[0].Input[fmt.Sprintf("f%02d", i)] = fmt.Sprintf("input.a + %d", i)
	}
	d.Nodes[0].Input["same"] = "input.a + 7"
	_, err := workflow.Bounds{Expressions: 12 * 40}.Compile(d)
	require.NoError(t, err)
	b := workflow.Bounds{Expressions: 100}
	_, err = b.Compile(d)
	var de *workflow.DefinitionError
	require.ErrorAs(t, err, &de)
	require.Len(t, de.Problems, 1)
	require.Equal(t, problem.TooLarge, de.Problems[0].Code)

	large := &workflow.Definition{Name: "x", Start: "a", Nodes: []workflow.Node{{ID: "a", Task: "t", Input: map[string]string{}}}}
	for i := range 2000 {
		large.Nodes[0].Input[fmt.Sprint("f", i)] = "'" + strings.Repeat("x", 600) + fmt.Sprint(i) + "'"
	}
	require.ErrorContains(t, large.Validate(), "too_large")
}

// TestChoicesAreBounded lists the most names among which an expression may choose, and one more.
func TestChoicesAreBounded(t *testing.T) {
	names := make([]string, limits.MaxChoices+1)
	for i := range names {
		names[i] = fmt.Sprint("tool", i)
	}
	d := &workflow.Definition{Name: "n", Start: "a", Nodes: []workflow.Node{{ID: "a", TaskExpr: "'tool1'", Tasks: names[:limits.MaxChoices]}}}
	require.NoError(t, d.Validate())
	d.Nodes[0].Tasks = names
	var de *workflow.DefinitionError
	require.ErrorAs(t, d.Validate(), &de)
	require.Equal(t, problem.TooLarge, de.Problems[0].Code)
	require.Contains(t, de.Problems[0].Message, "257 names are more than 256")
}

// A definition that was valid before there was a bound of its waits is still read.
func TestLongWaitsOfBefore(t *testing.T) {
	d, err := workflow.ParseYAML([]byte("name: d\nstart: a\ntimeout: 2000000h\nnodes: [{id: a, wait: {until: \"timestamp('9999-12-31T00:00:00Z')\"}}]\n"))
	require.NoError(t, err)
	require.Error(t, d.Validate())
	_, err = compiled.Boundless().Compile(d)
	require.NoError(t, err)
}
