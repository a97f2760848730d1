package state

import (
	"cmp"
	"slices"

	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/workflow"
)

// ReportedSince is the first version of the planner whose records count towards what a run has reported. Files that
// were written before have no sums, and their journals make none.
const ReportedSince = 3

// Reported are the numbers in the metadata of all results that a run has taken, of failed attempts too. They are
// counted from the messages as records are applied, so that they are always what the journal says. A result that was
// refused as stale is not among them. The lists are shared and never modified.
type Reported struct {
	Own   amount.Sums `json:"own,omitzero"`   // of the run's own attempts
	Below amount.Sums `json:"below,omitzero"` // of its children that have told their end, with all below them
	Nodes []NodeSums  `json:"nodes,omitzero"` // both by node, sorted by it
}

// NodeSums are what the attempts of a node have reported, and the child runs that it has started.
type NodeSums struct {
	Node workflow.NodeID `json:"node"`
	Sums amount.Sums     `json:"sums"`
}

// Total returns the sums of a run and of all below it.
func (r *Reported) Total() amount.Sums { return r.Own.Plus(r.Below) }

// OfNode returns the sums of a node.
func (r *Reported) OfNode(id workflow.NodeID) amount.Sums {
	if i, ok := r.findNode(id); ok {
		return r.Nodes[i].Sums
	}
	return nil
}

func (r *Reported) findNode(id workflow.NodeID) (int, bool) {
	return slices.BinarySearchFunc(r.Nodes, id, func(n NodeSums, id workflow.NodeID) int { return cmp.Compare(n.Node, id) })
}

// MetadataOf returns what the executor has told about an attempt with its result or its failure, and the token whose attempt it was; 0 of other messages.
func MetadataOf(m Message) (workflow.TokenID, map[string]any) {
	switch m := m.(type) {
	case TaskCompleted:
		return m.Token, m.Metadata
	case TaskFailed:
		return m.Token, m.Metadata
	default:
		return 0, nil
	}
}

// CountReport adds what a message reports, which the run takes: the metadata of a result, or the sums of a child that
// has ended. The planner counts it in its overlay, before it plans what follows, and decision.Apply in the state, once
// for each record.
func (s *State) CountReport(m Message) {
	limits := s.MetaLimits()
	id, metadata := MetadataOf(m)
	of, below := amount.Of(metadata, limits...), amount.Sums(nil)
	if m, ok := m.(ChildEnded); ok {
		id, below = m.Token, m.Reported
	}
	if len(of)+len(below) == 0 {
		return
	}
	t := s.Token(id)
	if t == nil {
		return
	}
	s.Reported.Own, s.Reported.Below = s.Reported.Own.Count(of, limits...), s.Reported.Below.Count(below, limits...)
	nodes := slices.Clone(s.Reported.Nodes) // an overlay has them too
	i, ok := s.Reported.findNode(t.Node)
	if !ok {
		nodes = slices.Insert(nodes, i, NodeSums{Node: t.Node})
	}
	nodes[i].Sums = nodes[i].Sums.Count(of, limits...).Count(below, limits...)
	s.Reported.Nodes = nodes
}

// CountRecord counts what the message of a record reports, unless that was counted with an earlier decision of the
// record.
func (s *State) CountRecord(seq int64, planner int, m Message) {
	if planner < ReportedSince || seq == s.counted {
		return
	}
	s.counted = seq
	s.CountReport(m)
}
