package planning

import (
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// mayStillTake reports whether a token can still take incoming transition i of a
// join, in the join's branch, without passing it.
func (p *planner) mayStillTake(at joinPlace, i int, t *state.Token) bool {
	n := p.s.Graph.Node(at.node)
	switch t.Status {
	case workflow.WaitingForJoin, workflow.Pending:
		if t.Node == n.ID && !t.Held {
			return false // it has not passed n yet
		}
	case workflow.WaitingForSiblings:
		if t.Scope == at.scope {
			return false // it is about to leave the branch
		}
		return p.leadsToIncoming(at, i, p.s.Graph.Transition(t.Via), p.s.Group(t.Scope.Group).Scope)
	default:
	}
	return p.reachWithin(at, i, t.Scope).Has(p.s.Graph.Node(t.Node))
}

// leadsToIncoming reports whether a transition that is taken into a scope is, or
// leads to, incoming transition i of a join without passing it.
func (p *planner) leadsToIncoming(at joinPlace, i int, t *workflow.GraphTransition, in workflow.Scope) bool {
	n := p.s.Graph.Node(at.node)
	return t.ID == n.Incoming[i].ID || t.To != n.ID && p.reachWithin(at, i, in).Has(p.s.Graph.Node(t.To))
}

// groupMayReach reports whether the failure of a group, raised at its origin, can
// still lead to incoming transition i of a join, or its own join can, or a branch that
// is added to it while it is open.
func (p *planner) groupMayReach(at joinPlace, i int, g *state.Group) bool {
	if g.Open && p.leadsToIncoming(at, i, p.s.Graph.Transition(g.Spawns[0].Transition), workflow.Scope{Group: g.ID}) {
		return true
	}
	around := p.enclosingNames(at.scope, g.Scope)
	for _, tier := range p.s.Graph.Node(g.Node).Failure {
		for _, t := range tier {
			leaves := t.Joins != nil && slices.Contains(around, t.Joins.Name)
			if !leaves && p.leadsToIncoming(at, i, t, g.Scope) {
				return true
			}
		}
	}
	spec := p.s.Graph.Groups[g.Name]
	return g.Name != "" && spec != nil && spec.Sync != nil && p.leadsToIncoming(at, i, spec.Joins[0], g.Scope)
}

// enclosingNames returns the names of the groups that a token would leave the branch
// of a join by joining. The token is in that branch or nested in it: a namesake
// between the two is joined first, and leads back into the branch.
func (p *planner) enclosingNames(branch, token workflow.Scope) (names []string) {
	for sc := branch; sc.Group != 0; {
		g := p.s.Group(sc.Group)
		if g.Name != "" && !slices.Contains(names, g.Name) {
			names = append(names, g.Name)
		}
		sc = g.Scope
	}
	for sc := token; sc != branch && len(names) > 0; {
		g := p.s.Group(sc.Group)
		names = slices.DeleteFunc(names, func(name string) bool { return name == g.Name })
		sc = g.Scope
	}
	return names
}

// A reachCache keeps, while a plan is made, from which nodes the incoming transitions
// of joins can be taken within some groups.
type reachCache struct {
	graph *workflow.Graph // a patch gives the run another
	sets  map[reachKey]workflow.NodeSet
}

type reachKey struct {
	node      workflow.NodeID
	incoming  int
	enclosing string
}

// reachWithin returns the nodes from which a token in a scope can come to take incoming
// transition i of a join, in the join's branch, without passing it.
func (p *planner) reachWithin(at joinPlace, i int, sc workflow.Scope) workflow.NodeSet {
	g := p.s.Graph
	names := p.enclosingNames(at.scope, sc)
	if len(names) == 0 {
		return g.Node(at.node).Reach[i]
	}
	if p.reach.graph != g {
		p.reach = reachCache{graph: g, sets: map[reachKey]workflow.NodeSet{}}
	}
	key := reachKey{at.node, i, strings.Join(names, "\x00")}
	set, ok := p.reach.sets[key]
	if !ok {
		set = g.ReachWithin(g.Node(at.node), i, names)
		p.reach.sets[key] = set
	}
	return set
}
