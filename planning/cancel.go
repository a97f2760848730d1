package planning

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// cancelNodes ends the live tokens at some nodes of the run. A node without a token is an
// error as well, since the caller would otherwise believe that something ended.
func (p *planner) cancelNodes(m state.CancelNodes) error {
	for _, id := range m.Nodes {
		if p.s.Graph.Node(id) == nil {
			return fmt.Errorf("%w: there is no node %q", state.ErrNotLive, string(id))
		}
	}
	if p.cancelTokens(decision.CancelTokens{Nodes: m.Nodes}) {
		return nil
	}
	for _, id := range p.s.LiveTokens() {
		if t := p.s.Token(id); t.Status == workflow.WaitingForSiblings && slices.Contains(m.Nodes, t.Node) {
			return fmt.Errorf("%w: no live thread is at %q: %v has arrived from there, and waits for its siblings at %q", state.ErrNotLive, m.Nodes, t.ID, string(p.s.NodeOf(t)))
		}
	}
	return fmt.Errorf("%w: no live thread is at %q", state.ErrNotLive, m.Nodes)
}

// cancelTokens ends tokens and has the branches decided that they were in, in the
// order of group and index. It reports whether there were any tokens.
//
// It serves CancelNodes and the cancels of a node. A branch that is left without a token has
// ended by choice, as it would have by routing; so has one that had arrived, if the nodes name
// the one that its join leads to.
func (p *planner) cancelTokens(d decision.CancelTokens) bool {
	d.AtJoins = p.planLike() >= 3
	ids := decision.TokensCancelled(p.s, d)
	if len(ids) == 0 {
		return false
	}
	// Where no token waits for its siblings, the record says what planners before version 3 said.
	d.AtJoins = slices.ContainsFunc(ids, func(id workflow.TokenID) bool { return p.s.Token(id).Status == workflow.WaitingForSiblings })
	p.decide(d)
	left := make([]workflow.Scope, len(ids))
	for i, id := range ids {
		if p.isDAG() {
			p.nodeCancelled(id)
		}
		left[i] = p.s.Token(id).Scope
	}
	// Sorted, so that tokens of one branch lie together and the branch is noted once.
	slices.SortFunc(left, func(a, b workflow.Scope) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Branch, b.Branch))
	})
	for _, sc := range left {
		p.stopJoinTime(sc.Group)
		p.touchBranch(sc)
	}
	return true
}

// stopJoinTime stops the time of a group's join, which runs from the first arrival, where none is left.
func (p *planner) stopJoinTime(id workflow.GroupID) {
	if g := p.s.Group(id); p.planLike() >= 5 && g != nil && g.Phase == workflow.Gathering && g.Arrived == 0 && !g.Due.IsZero() {
		p.decide(decision.ArmGroup{Group: id})
	}
}
