package reference_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/reference"
)

// nodes returns n tasks; the last has a join.
func nodes(n int, join reference.Join) []reference.Node {
	out := slices.Repeat([]reference.Node{{Task: true}}, n)
	out[n-1].Join = join
	return out
}

// play ends the oldest task with the next of some results until none is out, and
// returns the nodes of the tasks that ran.
func play(r *reference.Run, results ...int) []int {
	var ran []int
	for {
		i := slices.IndexFunc(r.Tokens, func(t *reference.Token) bool { return t.State == reference.Running })
		if i < 0 {
			return ran
		}
		t, result := r.Tokens[i], 0
		if len(ran) < len(results) {
			result = results[len(ran)]
		}
		ran = append(ran, t.Node)
		r.Complete(t, result)
	}
}

func TestRun(t *testing.T) {
	all := &reference.Sync{Group: "g", Tolerate: -1}
	diamond := []reference.Edge{{From: 0, To: 1}, {From: 0, To: 2, AtLeast: 1}, {From: 1, To: 3}, {From: 2, To: 3}}
	group := []reference.Edge{
		{From: 0, To: 1, Fan: true, Group: "g", Count: 3}, {From: 1, To: 2, AtLeast: 1, Sync: all},
	}
	for name, c := range map[string]struct {
		def     reference.Definition
		results []int
		ran     []int
		status  reference.Status
		code    string
	}{
		"and":             {reference.Definition{Nodes: nodes(4, reference.All), Edges: diamond}, []int{1}, []int{0, 1, 2, 3}, reference.Completed, ""},
		"and, a dead way": {reference.Definition{Nodes: nodes(4, reference.All), Edges: diamond}, nil, []int{0, 1}, reference.Failed, "deadlock"},
		"or":              {reference.Definition{Nodes: nodes(4, reference.Synchronize), Edges: diamond}, []int{1}, []int{0, 1, 2, 3}, reference.Completed, ""},
		"or, a dead way":  {reference.Definition{Nodes: nodes(4, reference.Synchronize), Edges: diamond}, nil, []int{0, 1, 3}, reference.Completed, ""},
		"xor":             {reference.Definition{Nodes: nodes(4, reference.NoJoin), Edges: diamond}, []int{1}, []int{0, 1, 2, 3, 3}, reference.Completed, ""},
		"group":           {reference.Definition{Nodes: nodes(3, reference.NoJoin), Edges: group}, []int{0, 1, 0, 1}, []int{0, 1, 1, 1, 2}, reference.Completed, ""},
		"abandoned":       {reference.Definition{Nodes: nodes(3, reference.NoJoin), Edges: group}, nil, []int{0, 1, 1, 1}, reference.Completed, ""},
		"a branch fails":  {reference.Definition{Nodes: nodes(3, reference.NoJoin), Edges: group}, []int{0, 1, -1}, []int{0, 1, 1}, reference.Failed, "expression_error"},
		"a loop": {
			reference.Definition{Nodes: nodes(2, reference.NoJoin), Edges: []reference.Edge{{From: 0, To: 0, Loop: 2}, {From: 0, To: 1, Tier: 1}}},
			nil, []int{0, 0, 0, 1}, reference.Completed, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := reference.New(&c.def)
			require.Equal(t, c.ran, play(r, c.results...))
			require.Equal(t, c.status, r.Status)
			require.Equal(t, c.code, r.Code)
		})
	}
}
