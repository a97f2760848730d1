package planning

import (
	"cmp"
	"maps"
	"slices"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
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
//
// A token made by a transition has it in Via. The first token of a branch does not: a fan-out
// makes very many, and their transition follows from the spawns of the group.
func (p *planner) arrivedVia(t *state.Token, n *compiled.Node) workflow.TransitionID {
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
func (p *planner) firstWaiting(t *compiled.Transition, sc workflow.Scope) *state.Token {
	return p.s.FirstInLine(state.WaitKey{Kind: state.LineJoin, Name: string(t.ID), Scope: sc})
}

// fireAllJoin fires the join of a node with join: all, as often as a token waits on every
// incoming transition. It is called for each token that has begun to wait, and after a patch
// for all that wait.
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
//
// The new token has no Via, by which it is known not to wait here again. Its parent is the
// token that came last, and so completed the join; its counts are, for each loop, the highest
// of those that met: whoever has gone round most often decides how often all of them may
// still do.
func (p *planner) fireNodeJoin(n *compiled.Node, sc workflow.Scope) {
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
//
// It is called only when nothing else is left to do in the plan, since any token that is yet
// to begin could still come. It costs nothing in a run where no token waits at a join. A join waits
// for what lives in its branch and in those nested in it, so that once none could fire only those
// are looked at in whose branch something has changed since.
func (p *planner) fireSynchronizing() bool {
	p.noteMoved()
	if p.s.CountByStatus(workflow.WaitingForJoin) == 0 || len(p.s.Graph.Synchronize) == 0 {
		p.settled, p.moved = true, nil
		return false
	}
	places := p.synchronizingPlaces()
	free := slices.DeleteFunc(slices.Clone(places), func(at joinPlace) bool {
		return !p.eachBlocker(at, func(*state.Token) bool { return false })
	})
	// Only if no join is free is a mutual wait broken: a free one may bring what the others
	// lack.
	if len(free) == 0 {
		if at, ok := p.mutualWait(places); ok {
			p.addNote(0, "", "%s waits for joins that wait for it: it fires", string(at.node))
			free = []joinPlace{at}
		}
	}
	if len(free) == 0 {
		p.settled, p.moved = true, nil
	}
	for _, at := range free {
		p.fireNodeJoin(p.s.Graph.Node(at.node), at.scope)
	}
	return len(free) > 0
}

// noteMoved notes the branches in which something has changed, with those around them.
func (p *planner) noteMoved() {
	for _, sc := range p.s.TakeMoved() {
		for !p.moved[sc] {
			if p.moved == nil {
				p.moved = map[workflow.Scope]bool{}
			}
			if p.moved[sc] = true; sc.Group != 0 {
				sc = p.s.Group(sc.Group).Scope
			}
		}
	}
}

// synchronizingPlaces returns where tokens wait at joins: synchronize that may fire, in definition
// order; the branches of one node in the order in which tokens came.
func (p *planner) synchronizingPlaces() []joinPlace {
	var out []joinPlace
	for _, n := range p.s.Graph.Synchronize {
		first := map[workflow.Scope]int64{} // the place in line of the token that came first
		if p.settled {
			for sc := range p.moved {
				for _, t := range n.Incoming {
					if w := p.firstWaiting(t, sc); w != nil && (first[sc] == 0 || w.Order < first[sc]) {
						first[sc] = w.Order
					}
				}
			}
		} else {
			for t := range p.s.TokensInLine(state.WaitKey{Kind: state.LineSynchronize, Name: string(n.ID)}) {
				if first[t.Scope] == 0 {
					first[t.Scope] = t.Order
				}
			}
		}
		for _, sc := range slices.SortedFunc(maps.Keys(first), func(a, b workflow.Scope) int { return cmp.Compare(first[a], first[b]) }) {
			out = append(out, joinPlace{n.ID, sc})
		}
	}
	return out
}

// eachBlocker calls f with every live token that can still reach an incoming
// transition on which no token waits, until f returns false, and reports whether
// f always returned true. For a group whose failure, join or added branch may lead
// there, it calls f with nil.
//
// It returns true for a join that has a token on every incoming transition, whatever else
// lives. mutualWait uses it to learn who the blockers are, fireSynchronizing to learn whether
// there are any.
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
//
// Groups without live tokens are entered only while they gather.
func (p *planner) visitBranch(sc workflow.Scope, token func(*state.Token) bool, group func(*state.Group) bool) bool {
	p.budget.pacer.Spend(1)
	b := p.s.Branch(sc)
	for id := range b.Tokens.Backward() {
		if !token(p.s.Token(id)) {
			return false
		}
	}
	for id := range b.Groups.Backward() {
		g := p.s.Group(id)
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
