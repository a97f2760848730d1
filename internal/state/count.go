package state

import (
	"slices"

	"github.com/pawl-run/pawl/workflow"
)

// A NodeCount counts the tokens that are at a node, or ended there, by status.
type NodeCount struct {
	Node   workflow.NodeID
	Tokens map[workflow.TokenStatus]int
}

// CountTokens counts the tokens by node and status: nodes in the order of the definition, then those that a patch has removed, by id. A
// token keeps the node at which it ended.
func (s *State) CountTokens() (out []NodeCount) {
	// The counts are arrays by status, since a map for each node would cost more than the tokens.
	counts := map[workflow.NodeID]*[workflow.Cancelled + 1]int{}
	for id := workflow.TokenID(1); id < s.NextToken; id++ {
		t := s.Token(id)
		of := counts[t.Node]
		if of == nil {
			of = new([workflow.Cancelled + 1]int)
			counts[t.Node] = of
		}
		of[t.Status]++
	}
	add := func(id workflow.NodeID) {
		of := counts[id]
		if of == nil {
			return
		}
		delete(counts, id)
		n := NodeCount{Node: id, Tokens: map[workflow.TokenStatus]int{}}
		for status, k := range of {
			if k > 0 {
				n.Tokens[workflow.TokenStatus(status)] = k
			}
		}
		out = append(out, n)
	}
	for i := range s.Graph.Definition.Nodes {
		add(s.Graph.Definition.Nodes[i].ID)
	}
	removed := make([]workflow.NodeID, 0, len(counts))
	for id := range counts {
		removed = append(removed, id)
	}
	slices.Sort(removed)
	for _, id := range removed {
		add(id)
	}
	return out
}
