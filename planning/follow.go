package planning

import (
	"slices"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A match is a transition that a token takes, with everything that taking it
// needs, evaluated before anything is decided.
//
// Everything in it may fail when it is evaluated, so that a node is left only when all its
// matches are complete.
type match struct {
	*compiled.Transition
	joins  workflow.Scope // the branch that arrives at its join; zero if it joins none
	source any            // the value that the branch brings to the merge
	count  int            // branches that it makes
	items  []any          // the elements of its foreach
}

// A branchFailure is a failure that ends a branch without asking the error
// transitions of the node: the merge source of an arrival could not be
// evaluated.
type branchFailure struct {
	scope   workflow.Scope
	failure *workflow.Failure
}

// evalMatches evaluates what taking the transitions needs.
//
// They are evaluated in definition order, and the first failure ends it. A transition that
// joins has the source of its merge evaluated, unless nobody will ask for it; any other, how
// many branches it makes.
func (p *planner) evalMatches(ts []*compiled.Transition, v vars) ([]match, *branchFailure, *workflow.Failure) {
	matches := make([]match, len(ts))
	for i, t := range ts {
		matches[i] = match{Transition: t}
		m := &matches[i]
		if m.joins = p.joinedBranch(v.scope, t); m.joins.Group != 0 {
			var f *workflow.Failure
			if t.Synchronization.Merge != nil && !p.tooLate(m.joins) {
				m.source, f = v.evalProgram(t.Source)
			}
			if f != nil {
				return nil, &branchFailure{m.joins, f}, nil
			}
			continue
		}
		if f := p.countBranches(m, v); f != nil {
			return nil, nil, f
		}
	}
	return matches, nil, nil
}

// joinedBranch returns the branch that arrives when a token in scope sc takes t: that of the
// innermost occurrence of the group which t synchronizes. It is the zero Scope if the token
// is in no such group, and then t does not join it. Taking the transition from a group
// further in ends that inner branch with it: the token leaves both.
func (p *planner) joinedBranch(sc workflow.Scope, t *compiled.Transition) workflow.Scope {
	if t.Joins == nil {
		return workflow.Scope{}
	}
	for sc.Group != 0 {
		g := p.s.Group(sc.Group)
		if g.Name == t.Joins.Name {
			return sc
		}
		sc = g.Scope
	}
	return workflow.Scope{}
}

// followTransitions takes the transitions of a node that has completed, or whose
// failure was caught. It creates their tokens in definition order; the branches
// of one sibling group are made together, at the group's first transition.
//
// The caller passes endToken, which ends the token that leaves the node. If the
// token can wait at a join itself, endToken gets the first such arrival, else
// nil. It reports whether the token does wait there; if it does not, a token
// that followTransitions creates is carried to that join instead.
//
// For example, a token that takes a transition to its join and a plain one waits at the join
// itself, and a new token takes the plain one; the branch arrives when that one has come to
// the join as well or ended.
func (p *planner) followTransitions(matches []match, v vars, endToken func(arrival *decision.AwaitSiblings) bool) {
	p.noteRoute(matches, v)
	// In a dag what leaves a node is only counted: tokens are made by the nodes that become
	// ready.
	if p.isDAG() {
		endToken(nil)
		p.resolveOutgoing(matches, v)
		return
	}
	var made []string // sibling groups
	arrival := p.firstArrival(matches)
	// The token ends before others are made, so that it does not count as live beside them.
	waits := endToken(arrival)
	for i := range matches {
		m := &matches[i]
		switch {
		case m.joins.Group != 0:
			if !waits || arrival.Via != m.ID {
				p.carryToJoin(m, v)
			}
		case !m.Fans():
			p.passOn(m, v)
		case m.SiblingGroup == "":
			p.fanOut("", matches[i:i+1], v)
		case !slices.Contains(made, m.SiblingGroup):
			made = append(made, m.SiblingGroup)
			p.fanOut(m.SiblingGroup, matches[i:], v)
		}
	}
	// It may have been the last one of its branch.
	p.touchBranch(v.scope)
}

// firstArrival returns how the token itself arrives at a join: by the first of the
// synchronizing transitions; nil without one. A token can wait in one place only;
// further synchronizing transitions are taken by tokens made for that.
func (p *planner) firstArrival(matches []match) *decision.AwaitSiblings {
	for i := range matches {
		if m := &matches[i]; m.joins.Group != 0 {
			return &decision.AwaitSiblings{Scope: m.joins, Via: m.ID, Source: m.source}
		}
	}
	return nil
}

// passOn creates the token that takes a transition which neither joins nor fans out. The new
// token stays in the scope of the old one, with its counts and one more if the transition
// loops. Copying many counts is charged to the plan, because a definition may have many
// loops.
func (p *planner) passOn(m *match, v vars) {
	t := v.token
	if m.Loop != nil {
		p.charge(limits.CountCost * len(t.Counts))
	}
	p.createToken(state.Token{
		Node: m.To, Via: p.viaIfJoined(m.ID, m.To), Parent: t.ID, Scope: v.scope,
		Counts: decision.Traverse(p.s.Graph, t.Counts, m.Transition), Caught: v.caught,
	}, v.result)
}

// carryToJoin creates a further token that arrives at a join, because the token
// that left the node waits at another one or has failed. It creates none where
// the arrival would change nothing.
//
// The token never begins at a node. It stands for the arrival alone, with the value that was
// evaluated for the transition.
func (p *planner) carryToJoin(m *match, v vars) {
	if p.tooLate(m.joins) {
		p.touchBranch(m.joins)
		return
	}
	id := p.s.NextToken
	if p.tooManyTokens(1) {
		return
	}
	p.decide(decision.CreateToken{Token: state.Token{ID: id, Node: v.token.Node, Parent: v.token.ID, Scope: v.scope, Counts: v.token.Counts}})
	p.arriveAtJoin(decision.AwaitSiblings{Token: id, Scope: m.joins, Via: m.ID, Source: m.source})
}
