package planning

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// Why a run fails at an end node. The failure has the code and the message of the node and, as
// its cause, what was caught on the way there. The way is the lineage of the token: from the
// end backwards, the first that counts is the nearest.
//
//	a token that failed    and that error transitions left: its failure
//	a group that failed    raised at the node that fanned out: the failure of its first branch,
//	                       by index, that failed; its own if none did
//	a join that tolerated  the failure of the first branch, by index, that failed
//	the join of a node     of the tokens that met there, the one that was made first and has a
//	                       cause
//	a node of a dag        the first incoming transition, in definition order, that has one

// endFailure returns with what the run fails at an end node, nil where it completes there; or
// why an expression has no value.
func (p *planner) endFailure(t *state.Token, n *compiled.Node, v vars) (failure, f *workflow.Failure) {
	if n.End.Fail == "" && n.End.CodeExpr == "" {
		return nil, nil
	}
	end := &workflow.Failure{Code: n.End.Fail, Message: n.End.Message, Permanent: true, Node: n.ID, Token: t.ID}
	if n.Code != nil {
		if end.Code, f = v.evalText(n.Code, "the code of a failure", "the code of a failure"); f != nil {
			return nil, f
		}
		if problem := limits.NameFault(end.Code); problem != "" {
			return nil, &workflow.Failure{Code: workflow.CodeExpression, Permanent: true, Message: fmt.Sprintf("%s: the code %.80q: %s", n.Code.Source(), end.Code, problem)}
		}
	}
	if n.Message != nil {
		if end.Message, f = v.evalText(n.Message, "what is said of a failure", "the message of a failure"); f != nil {
			return nil, f
		}
	}
	if p.planLike() >= 3 {
		if l := newLineage(p); l != nil {
			end.Cause = withoutCause(l.causeOf(t), 1)
		}
	}
	return end, nil
}

// withoutCause returns a copy of a failure whose causes go so many levels back.
func withoutCause(f *workflow.Failure, levels int) *workflow.Failure {
	if f == nil {
		return nil
	}
	out := *f
	if levels == 0 {
		out.Cause = nil
	} else {
		out.Cause = withoutCause(f.Cause, levels-1)
	}
	return &out
}

// A lineage looks for what was caught before a token. Each token is looked at once, so that the
// search costs time in proportion to the run.
type lineage struct {
	p      *planner
	seen   map[workflow.TokenID]bool
	groups map[workflow.TokenID][]*state.Group // those in which a branch failed, by origin, in the order of their ids
	met    map[joinPlace][]*state.Token        // tokens that have completed at a node with a join, in the order of their ids
	dag    map[workflow.NodeID]*state.Token    // the token of each node of a dag
}

// newLineage returns a lineage; nil if nothing in the run has failed.
func newLineage(p *planner) *lineage {
	l := &lineage{p: p, seen: map[workflow.TokenID]bool{}, groups: map[workflow.TokenID][]*state.Group{}, met: map[joinPlace][]*state.Token{}}
	for id := workflow.GroupID(1); id < p.s.NextGroup; id++ {
		p.budget.pacer.Spend(1)
		if g := p.s.Group(id); g.Failed > 0 {
			l.groups[g.Origin] = append(l.groups[g.Origin], g)
		}
	}
	failed := len(l.groups) > 0
	for id := workflow.TokenID(1); id < p.s.NextToken; id++ {
		p.budget.pacer.Spend(1)
		t := p.s.Token(id)
		failed = failed || hasFailed(t)
		if n := p.s.Graph.Node(t.Node); n != nil && n.Join != workflow.JoinNone && t.Status == workflow.Completed {
			at := joinPlace{t.Node, t.Scope}
			l.met[at] = pace.Push(l.met[at], t)
		}
	}
	if !failed {
		return nil
	}
	return l
}

// hasFailed reports whether a token has ended with a failure.
func hasFailed(t *state.Token) bool {
	return t.Failure != nil && (t.Status == workflow.Failed || t.Status == workflow.TimedOut)
}

// causeOf returns the nearest failure that was caught on the way to a token, nil if none was.
func (l *lineage) causeOf(t *state.Token) *workflow.Failure {
	for t != nil && !l.seen[t.ID] {
		l.p.budget.pacer.Spend(1)
		l.seen[t.ID] = true
		if l.p.isDAG() {
			return l.causeInDAG(t)
		}
		if f := l.causeAtJoin(t); f != nil {
			return f
		}
		parent := l.p.s.Token(t.Parent)
		if parent == nil {
			return nil
		}
		if f := l.causeAt(t, parent); f != nil {
			return f
		}
		t = parent
	}
	return nil
}

// causeAt returns what was caught as a token grew from its parent. Up to version 5 all that grew from a token that had
// not failed had what the joins of its groups tolerated as the cause, and not only what continued from there.
func (l *lineage) causeAt(t, parent *state.Token) *workflow.Failure {
	next := t
	if l.p.planLike() < 6 {
		next = nil
	}
	if next != nil || !hasFailed(parent) {
		if f := l.causeInGroup(parent.ID, workflow.Fired, t.Scope, next); f != nil || !hasFailed(parent) {
			return f
		}
	}
	// It may have failed in place of a group that it did not fan out itself.
	if f := l.causeInGroup(parent.Parent, workflow.Broken, parent.Scope, nil); f != nil && parent.Node == l.nodeOf(parent.Parent) {
		return f
	}
	return parent.Failure
}

// continuesBehind reports whether a token that has grown from the origin of a group continues behind the join of the group: it
// was made after the tokens of all branches.
func (l *lineage) continuesBehind(t *state.Token, g *state.Group) bool {
	spec := l.p.s.Graph.Groups[g.Name]
	return spec != nil && t.Node == spec.To && t.ID > g.TokenOf(g.Total-1)
}

func (l *lineage) nodeOf(id workflow.TokenID) workflow.NodeID {
	if t := l.p.s.Token(id); t != nil {
		return t.Node
	}
	return ""
}

// causeInGroup returns the failure of the first branch that failed in a group that a token has
// fanned out, and that has ended so, for a token in the scope around it: for next, unless that is nil, only if it
// continues behind the join of the group.
func (l *lineage) causeInGroup(origin workflow.TokenID, phase workflow.Phase, around workflow.Scope, next *state.Token) *workflow.Failure {
	for _, g := range slices.Backward(l.groups[origin]) {
		if g.Phase != phase || g.Scope != around || next != nil && !l.continuesBehind(next, g) {
			continue
		}
		for _, b := range l.p.branchesOf(g, state.BranchFailed) {
			return b.Failure
		}
	}
	return nil
}

// causeAtJoin returns the cause of the tokens that met at the join of a node, for the one with
// which it continued: those that have ended there since it continued before.
func (l *lineage) causeAtJoin(t *state.Token) *workflow.Failure {
	if n := l.p.s.Graph.Node(t.Node); n == nil || n.Join == workflow.JoinNone || l.nodeOf(t.Parent) != t.Node {
		return nil
	}
	met := l.met[joinPlace{t.Node, t.Scope}]
	end, _ := slices.BinarySearchFunc(met, t.ID, func(x *state.Token, id workflow.TokenID) int { return cmp.Compare(x.ID, id) })
	first := end
	for first > 0 && l.nodeOf(met[first-1].Parent) != t.Node { // up to the token with which it continued before
		first--
	}
	for _, x := range met[first:end] {
		if f := l.causeOf(x); f != nil {
			return f
		}
	}
	return nil
}

// causeInDAG is causeOf where each node has one token.
func (l *lineage) causeInDAG(t *state.Token) *workflow.Failure {
	if l.dag == nil {
		l.dag = map[workflow.NodeID]*state.Token{}
		for id := workflow.TokenID(1); id < l.p.s.NextToken; id++ {
			l.dag[l.p.s.Token(id).Node] = l.p.s.Token(id)
		}
	}
	n := l.p.s.Graph.Node(t.Node)
	if n == nil {
		return nil
	}
	for _, in := range n.Incoming {
		from := l.dag[in.From]
		if from != nil && hasFailed(from) && (in.Outcome == workflow.OnError || in.Outcome == workflow.OnAlways) {
			return from.Failure
		}
	}
	for _, in := range n.Incoming {
		if from := l.dag[in.From]; from != nil && !l.seen[from.ID] {
			if f := l.causeOf(from); f != nil {
				return f
			}
		}
	}
	return nil
}
