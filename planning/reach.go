package planning

import (
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// mayStillTake reports whether a token can still take incoming transition i of a
// join, in the join's branch, without passing it.
//
// It does not ask conditions, so that it errs towards waiting: a token that could only come
// if a condition held which never holds blocks the join until it has ended.
func (p *planner) mayStillTake(at joinPlace, i int, t *state.Token) bool {
	n := p.s.Graph.Node(at.node)
	switch t.Status {
	case workflow.WaitingForJoin, workflow.Pending:
		if t.Node == n.ID && !t.Held {
			return false // it has not passed n yet
		}
	// It waits at the join of its group, and goes on from there as the continuation: by the
	// transition that it took, in the scope around the group.
	case workflow.WaitingForSiblings:
		if t.Scope == at.scope {
			return false // it is about to leave the branch
		}
		return p.leadsToIncoming(at, i, p.s.Graph.Transition(t.Via), p.s.Group(t.Scope.Group).Scope)
	default:
	}
	return p.reachWithin(at, i, t.Scope).Has(p.s.Graph.Node(t.Node))
}

// leadsToIncoming reports whether a transition that is taken into a scope is, or leads to,
// incoming transition i of a join without passing it. A transition that leads to the join's
// own node by another way does not count: the token would be at the join, and have to pass
// it.
func (p *planner) leadsToIncoming(at joinPlace, i int, t *compiled.Transition, in workflow.Scope) bool {
	n := p.s.Graph.Node(at.node)
	return t.ID == n.Incoming[i].ID || t.To != n.ID && p.reachWithin(at, i, in).Has(p.s.Graph.Node(t.To))
}

// groupMayReach reports whether the failure of a group, raised at its origin, can still lead
// to incoming transition i of a join, or its own join can, or a branch that is added to it
// while it is open. The tokens of the group are asked by themselves; here is what the group
// as a whole may bring about, also when nothing lives in it any more. A failure transition
// that would leave the join's branch does not count.
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
//
// Say that the join is in branch g1:0 of a group "items", and a token in it. A transition
// that synchronizes "items" takes the token out of the branch, so that what lies behind it
// does not count as a way to the join.
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

// A reachCache keeps, while a plan is made, from which nodes the incoming transitions of
// joins can be taken within some groups. It is there because every token in the branch asks
// for the same set. A plan is short, so that nothing is ever dropped but by a patch.
type reachCache struct {
	graph *compiled.Graph // a patch gives the run another
	sets  map[reachKey]compiled.NodeSet
}

// A reachKey says for which join, which incoming transition of it and within which groups a
// set was found.
type reachKey struct {
	node      workflow.NodeID
	incoming  int
	enclosing string
}

// reachWithin returns the nodes from which a token in a scope can come to take incoming
// transition i of a join, in the join's branch, without passing it.
//
// Where no name counts the set is that of the definition, which was found when it was
// compiled.
func (p *planner) reachWithin(at joinPlace, i int, sc workflow.Scope) compiled.NodeSet {
	g := p.s.Graph
	names := p.enclosingNames(at.scope, sc)
	if len(names) == 0 {
		return g.Node(at.node).Reach[i]
	}
	if p.reach.graph != g {
		p.reach = reachCache{graph: g, sets: map[reachKey]compiled.NodeSet{}}
	}
	key := reachKey{at.node, i, strings.Join(names, "\x00")}
	set, ok := p.reach.sets[key]
	if !ok {
		set = g.ReachWithin(g.Node(at.node), i, names)
		p.reach.sets[key] = set
	}
	return set
}
