package workflow

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Bounds can be raised, and lowered; transitions that needs is short for count.
func TestBounds(t *testing.T) {
	d := &Definition{Name: "x", Mode: ModeDAG}
	for i := range MaxNodes + 1 {
		d.Nodes = append(d.Nodes, Node{ID: NodeID(fmt.Sprint("n", i))})
	}
	_, err := Compile(d)
	require.ErrorContains(t, err, "10001 nodes are more than 10000")
	_, err = Bounds{Nodes: len(d.Nodes)}.Compile(d)
	require.NoError(t, err)

	small := &Definition{Name: "x", Mode: ModeDAG, Nodes: []Node{{ID: "a"}, {ID: "b", Needs: []NodeID{"a"}}, {ID: "c", Needs: []NodeID{"a", "b"}}}}
	_, err = Bounds{Transitions: 2}.Compile(small)
	require.ErrorContains(t, err, "3 transitions are more than 2")
	_, err = Bounds{Bytes: 20}.Compile(small)
	require.ErrorContains(t, err, "too_large")
	_, err = Bounds{Bytes: 20}.ParseYAML([]byte("name: x\nmode: dag\nnodes: []\n"))
	require.ErrorContains(t, err, "too_large")
}

// What needs is short for is in the graph, and not in the definition.
func TestNeeds(t *testing.T) {
	d := &Definition{Name: "x", Mode: ModeDAG, Nodes: []Node{{ID: "a"}, {ID: "b", Needs: []NodeID{"a", "a"}}}}
	g, err := Compile(d)
	require.NoError(t, err)
	require.NotNil(t, g.Transition("a->b"))
	require.Len(t, g.Node("b").Incoming, 2)
	require.Empty(t, g.Definition.Transitions)
	hash, err := d.Hash()
	require.NoError(t, err)
	require.Equal(t, hash, g.Hash)
	data, err := g.Definition.MarshalJSON()
	require.NoError(t, err)
	again, err := Boundless().ParseJSON(data)
	require.NoError(t, err)
	other, err := Boundless().Compile(again)
	require.NoError(t, err)
	require.Equal(t, g.Hash, other.Hash)
}
