package soundness

import (
	"cmp"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// joinName names a join: that of a sibling group, or of a node.
//
// Names of groups and of nodes are apart, so that one map holds both.
func joinName(group string, node workflow.NodeID) string {
	if group != "" {
		return "group " + group
	}
	return "node " + string(node)
}

// noteDecision notes joins that fire, before the decision is applied.
//
// A group that fires with too few branches, a shortfall, does not count as one that fired as it
// should: checkJoins wants to know whether the join can ever be met.
func (x *explorer) noteDecision(next *found, d decision.Decision) {
	s := next.state
	switch d := d.(type) {
	case decision.FireJoin:
		x.fired[joinName("", d.Node)] = true
	case decision.FireGroup:
		if !d.Shortfall {
			x.fired[joinName(s.Group(d.Group).Name, "")] = true
		}
	case decision.AwaitSiblings:
		at := joinName(s.Group(d.Scope.Group).Name, "")
		if _, ok := x.waited[at]; !ok {
			x.waited[at] = -1 // where is known once the state is kept
		}
	case decision.CompleteRun:
		// The decision is not applied yet: the tokens that wait are still live.
		next.joined = waitsAtJoin(s) // so that an end node ends the run
	default: // is of no interest
	}
}

// waitsAtJoin reports whether a token waits at a join.
func waitsAtJoin(s *state.State) bool {
	return s.CountByStatus(workflow.WaitingForJoin)+s.CountByStatus(workflow.WaitingForSiblings) > 0
}

// noteWaiting notes the joins at which tokens wait in a state, and the groups that gather.
//
// Each join is noted with the first state, so the one nearest to the start. A token at a join
// of tokens is seen waiting, or, if the run failed in the same move, cancelled with the
// transition by which it came. A group counts from its first branch on, since its join is
// waited for from then.
func (x *explorer) noteWaiting(at int, s *state.State) {
	for id := workflow.TokenID(1); id < s.NextToken; id++ {
		t := s.Token(id)
		if t.Status == workflow.WaitingForJoin || t.Status == workflow.Cancelled && t.Via != "" && x.graph.Node(t.Node).Join != workflow.JoinNone {
			name := joinName("", t.Node)
			if _, ok := x.waited[name]; !ok {
				x.waited[name] = at
			}
		}
	}
	for id := workflow.GroupID(1); id < s.NextGroup; id++ {
		g := s.Group(id)
		if g.Name == "" || g.Total == 0 {
			continue
		}
		if first, ok := x.waited[joinName(g.Name, "")]; !ok || first < 0 {
			x.waited[joinName(g.Name, "")] = at
		}
	}
}

// noteLeftover notes an end with which tokens are left at joins.
//
// A branch that was cut off is found by its tokens: cancelled, and with the transition by
// which they came to the join. If that transition joins a group, the join is the group's,
// else that of the node.
func (x *explorer) noteLeftover(at int, next *found) {
	s := next.state
	for id := workflow.TokenID(1); id < s.NextToken; id++ {
		t := s.Token(id)
		if t.Status != workflow.Cancelled || t.Via == "" {
			continue
		}
		name := joinName("", t.Node)
		if tr := x.graph.Transition(t.Via); tr != nil && tr.Joins != nil {
			name = joinName(tr.Joins.Name, "")
		}
		if _, ok := x.leftover[name]; !ok {
			x.leftover[name] = at
		}
	}
}

// noteSpinning notes a run that has failed at a limit, if the move that led there could come to nothing else: from the first node, or from
// the task that completed, the way goes through gateways and comes back to one of them. A plan that was given up does not tell the way.
func (x *explorer) noteSpinning(next *found) {
	if next.state.Failure == nil || next.state.Failure.Code != workflow.CodeLimit {
		return
	}
	n := x.graph.Node(next.by.node)
	switch next.by.message.(type) {
	case state.Start:
		n = x.graph.Node(x.graph.Definition.Start)
	case state.TaskCompleted:
		n = x.nextAtOnce(n)
	default:
		return
	}
	var way []*compiled.Node
	at := map[*compiled.Node]int{} // in way
	for ; n != nil && n.Kind == workflow.KindGateway && n.Join == workflow.JoinNone; n = x.nextAtOnce(n) {
		if first, again := at[n]; again {
			for _, on := range way[first:] {
				x.cut[on.ID] = cmp.Or(x.cut[on.ID], next)
			}
			return
		}
		at[n] = len(way)
		way = append(way, n)
	}
}

// nextAtOnce returns a node to which a token goes from each completion of a node, whatever else follows; nil without one.
func (x *explorer) nextAtOnce(n *compiled.Node) *compiled.Node {
	if n == nil || len(n.Success) == 0 {
		return nil
	}
	for _, t := range n.Success[0] {
		if t.Condition == nil && t.Loop == nil && !t.Fans() && t.Joins == nil {
			return x.graph.Node(t.To)
		}
	}
	return nil
}
