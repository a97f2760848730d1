package planning

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// How a node with a join of its own waits for its incoming transitions. Groups have
// no part in it: the tokens of one branch wait for each other, and so do those
// outside any group. The nodes of a dag wait as dag.go says.
//
//	join: all          fires as soon as a token waits on every incoming
//	                   transition (fireAllJoin).
//	join: synchronize  fires once no live token of the branch can still reach an
//	                   incoming transition that has no token waiting. That is
//	                   asked when nothing else is left to do (fireSynchronizing).
//	mutual wait        Of joins that wait only for each other, the first in
//	                   definition order fires (mutualWait).
//	deadlock           If only joins that can never fire are left, the run fails
//	                   (onlyJoinsWait).

// A joinPlace is the join of a node in one branch: tokens of different branches
// never join each other there.
type joinPlace struct {
	node  workflow.NodeID
	scope workflow.Scope
}

// arrivedVia returns the transition by which a token has come to a node with a join,
// "" where it begins there at once: the node has none, or the token is the start
// or the one with which the join continued.
func (p *planner) arrivedVia(t *state.Token, n *workflow.GraphNode) workflow.TransitionID {
	switch {
	case n.Join == workflow.JoinNone || p.isDAG():
		return ""
	case t.Via != "":
		return t.Via
	}
	if g := p.s.Group(t.Scope.Group); g != nil && g.TokenOf(t.Scope.Branch) == t.ID {
		id, _ := g.SpawnOf(t.Scope.Branch)
		return id
	}
	return ""
}

// viaIfJoined returns id if that transition leads to a node with a join, where the
// token must know by which transition it came; else "".
func (p *planner) viaIfJoined(id workflow.TransitionID, to workflow.NodeID) workflow.TransitionID {
	if p.s.Graph.Node(to).Join == workflow.JoinNone || p.isDAG() {
		return ""
	}
	return id
}

// firstWaiting returns the token that has waited longest at a join by one transition.
func (p *planner) firstWaiting(t *workflow.GraphTransition, sc workflow.Scope) *state.Token {
	return p.s.FirstInLine(state.WaitKey{Kind: state.LineJoin, Name: string(t.ID), Scope: sc})
}

// fireAllJoin fires the join of a node with join: all, as often as a token waits
// on every incoming transition.
func (p *planner) fireAllJoin(at joinPlace) {
	n := p.s.Graph.Node(at.node)
	if n.Join != workflow.JoinAll {
		return // join: synchronize is decided when the run has come to rest
	}
	for !p.hasStopped() {
		for _, t := range n.Incoming {
			if p.firstWaiting(t, at.scope) == nil {
				return
			}
		}
		p.fireNodeJoin(n, at.scope)
	}
}

// fireNodeJoin ends one token of each incoming transition that has one, and creates
// a new token at the node in their place.
func (p *planner) fireNodeJoin(n *workflow.GraphNode, sc workflow.Scope) {
	var ids []workflow.TokenID
	var last *state.Token
	counts := state.Counts{}
	for _, tr := range n.Incoming {
		t := p.firstWaiting(tr, sc)
		if t == nil {
			continue
		}
		ids = append(ids, t.ID)
		if last == nil || t.Order > last.Order {
			last = t
		}
		for id, c := range t.Counts {
			counts[id] = max(counts[id], c)
		}
	}
	if len(counts) == 0 {
		counts = nil
	}
	p.decide(decision.FireJoin{Node: n.ID, Tokens: ids})
	p.createToken(state.Token{Node: n.ID, Parent: last.ID, Scope: sc, Counts: counts}, nil)
	p.touchBranch(sc)
}

// fireSynchronizing fires each join: synchronize where no live token of the branch
// can still reach an incoming transition that has no token waiting, in definition
// order, and reports whether there was one. Joins that become ready together fire
// together. If all joins that wait, wait for each other, the first of them fires.
func (p *planner) fireSynchronizing() bool {
	if p.s.CountByStatus(workflow.WaitingForJoin) == 0 || len(p.s.Graph.Synchronize) == 0 {
		return false
	}
	places := p.synchronizingPlaces()
	free := slices.DeleteFunc(slices.Clone(places), func(at joinPlace) bool {
		return !p.eachBlocker(at, func(*state.Token) bool { return false })
	})
	if len(free) == 0 {
		if at, ok := p.mutualWait(places); ok {
			p.addNote(0, "", "%s waits for joins that wait for it: it fires", string(at.node))
			free = []joinPlace{at}
		}
	}
	for _, at := range free {
		p.fireNodeJoin(p.s.Graph.Node(at.node), at.scope)
	}
	return len(free) > 0
}

// synchronizingPlaces returns where tokens wait at joins: synchronize, in definition
// order.
func (p *planner) synchronizingPlaces() []joinPlace {
	var out []joinPlace
	for _, n := range p.s.Graph.Synchronize {
		seen := map[workflow.Scope]bool{}
		for t := range p.s.TokensInLine(state.WaitKey{Kind: state.LineSynchronize, Name: string(n.ID)}) {
			if !seen[t.Scope] {
				seen[t.Scope] = true
				out = append(out, joinPlace{n.ID, t.Scope})
			}
		}
	}
	return out
}

// eachBlocker calls f with every live token that can still reach an incoming
// transition on which no token waits, until f returns false, and reports whether
// f always returned true. For a group whose failure, join or added branch may lead
// there, it calls f with nil.
func (p *planner) eachBlocker(at joinPlace, f func(*state.Token) bool) bool {
	n := p.s.Graph.Node(at.node)
	var empty []int
	for i, t := range n.Incoming {
		if p.firstWaiting(t, at.scope) == nil {
			empty = append(empty, i)
		}
	}
	if len(empty) == 0 {
		return true
	}
	return p.visitBranch(at.scope, func(t *state.Token) bool {
		for _, i := range empty {
			if p.mayStillTake(at, i, t) {
				return f(t)
			}
		}
		return true
	}, func(g *state.Group) bool {
		for _, i := range empty {
			if p.groupMayReach(at, i, g) {
				return f(nil)
			}
		}
		return true
	})
}

// visitBranch visits the live tokens of a branch and of what is nested in it, and the
// groups that gather there, stragglers excepted, newest first, until a visit
// returns false.
func (p *planner) visitBranch(sc workflow.Scope, token func(*state.Token) bool, group func(*state.Group) bool) bool {
	b := p.s.Branch(sc)
	for i := len(b.Tokens) - 1; i >= 0; i-- {
		if !token(p.s.Token(b.Tokens[i])) {
			return false
		}
	}
	for i := len(b.Groups) - 1; i >= 0; i-- {
		g := p.s.Group(b.Groups[i])
		if g.Phase == workflow.Fired {
			continue
		}
		if g.Phase == workflow.Gathering && !group(g) {
			return false
		}
		for j := g.Total - 1; j >= 0 && (g.Live > 0 || g.Phase == workflow.Gathering); j-- {
			if !p.visitBranch(workflow.Scope{Group: g.ID, Branch: j}, token, group) {
				return false
			}
		}
	}
	return true
}

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

// mutualWait returns the first of the joins that wait for each other and for
// nothing else. The joins and what each waits for are a graph; such joins are a
// strongly connected part of it that no edge leaves.
func (p *planner) mutualWait(places []joinPlace) (joinPlace, bool) {
	waits := map[joinPlace]map[joinPlace]bool{}
	for _, at := range places {
		others := map[joinPlace]bool{}
		if p.eachBlocker(at, func(t *state.Token) bool {
			if t == nil || t.Status != workflow.WaitingForJoin || t.Scope != at.scope || p.s.Graph.Node(t.Node).Join != workflow.JoinSynchronize {
				return false
			}
			others[joinPlace{t.Node, t.Scope}] = true
			return true
		}) {
			waits[at] = others
		}
	}
	for _, at := range places {
		if waits[at] == nil {
			continue
		}
		reached, closed := reachedFrom(at, waits)
		if !closed {
			continue
		}
		mutual := true
		for other := range reached {
			back, _ := reachedFrom(other, waits)
			mutual = mutual && back[at]
		}
		if mutual {
			return at, true
		}
	}
	return joinPlace{}, false
}

// reachedFrom returns the joins that a join waits for, directly and through
// others, and whether all of them wait for nothing but joins.
func reachedFrom(at joinPlace, waits map[joinPlace]map[joinPlace]bool) (map[joinPlace]bool, bool) {
	reached, work := map[joinPlace]bool{}, []joinPlace{at}
	for len(work) > 0 {
		next := work[len(work)-1]
		work = work[:len(work)-1]
		if waits[next] == nil {
			return reached, false
		}
		for other := range waits[next] {
			if !reached[other] {
				reached[other] = true
				work = append(work, other)
			}
		}
	}
	return reached, true
}

// onlyJoinsWait reports whether the run is deadlocked: every live token waits at a
// join that can never fire, or for one that waits there.
func (p *planner) onlyJoinsWait() bool {
	s := p.s
	joins := s.CountByStatus(workflow.WaitingForJoin)
	stuck := joins + s.CountByStatus(workflow.WaitingForSiblings) + s.CountByStatus(workflow.Pending) - s.HeldTokens()
	return joins > 0 && s.LiveCount() == stuck && s.OpenGroups() == 0 && s.NextDue().IsZero()
}

// deadlockFailure is the failure of a run in which only joins wait.
func (p *planner) deadlockFailure() workflow.Failure {
	const most = 10
	var where []string
	for _, id := range p.s.LiveTokens() {
		if t := p.s.Token(id); t.Status == workflow.WaitingForJoin {
			if len(where) == most {
				where = append(where, "...")
				break
			}
			where = append(where, fmt.Sprintf("%v at %q by %q", id, string(t.Node), string(t.Via)))
		}
	}
	return workflow.Failure{
		Code: workflow.CodeDeadlock, Permanent: true,
		Message: "only joins that can never fire are left: " + strings.Join(where, ", "),
	}
}
