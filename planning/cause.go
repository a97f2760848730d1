package planning

import (
	"fmt"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/limits"
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
		l := lineage{p: p, seen: map[workflow.TokenID]bool{}}
		end.Cause = withoutCause(l.causeOf(t), 1)
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

// A lineage looks for what was caught before a token. Each token is looked at once.
type lineage struct {
	p    *planner
	seen map[workflow.TokenID]bool
	dag  map[workflow.NodeID]*state.Token // the token of each node of a dag
}

// causeOf returns the nearest failure that was caught on the way to a token, nil if none was.
func (l *lineage) causeOf(t *state.Token) *workflow.Failure {
	for t != nil && !l.seen[t.ID] {
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

// causeAt returns what was caught as a token grew from its parent.
func (l *lineage) causeAt(t, parent *state.Token) *workflow.Failure {
	if parent.Failure != nil && (parent.Status == workflow.Failed || parent.Status == workflow.TimedOut) {
		// It may have failed in place of a group that it did not fan out itself.
		if f := l.causeInGroup(parent.Parent, workflow.Broken, parent.Scope); f != nil && parent.Node == l.nodeOf(parent.Parent) {
			return f
		}
		return parent.Failure
	}
	return l.causeInGroup(parent.ID, workflow.Fired, t.Scope)
}

func (l *lineage) nodeOf(id workflow.TokenID) workflow.NodeID {
	if t := l.p.s.Token(id); t != nil {
		return t.Node
	}
	return ""
}

// causeInGroup returns the failure of the first branch that failed in a group that a token has
// fanned out, and that has ended so, for a token in the scope around it.
func (l *lineage) causeInGroup(origin workflow.TokenID, phase workflow.Phase, around workflow.Scope) *workflow.Failure {
	for id := l.p.s.NextGroup - 1; id > 0; id-- {
		g := l.p.s.Group(id)
		if g.Origin != origin || g.Phase != phase || g.Scope != around || g.Failed == 0 {
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
	met := []*state.Token{}
	for id := t.ID - 1; id > 0; id-- {
		x := l.p.s.Token(id)
		if x.Node != t.Node || x.Scope != t.Scope || x.Status != workflow.Completed {
			continue
		}
		if l.nodeOf(x.Parent) == t.Node {
			break // it continued here before
		}
		met = append(met, x)
	}
	for i := len(met) - 1; i >= 0; i-- {
		if f := l.causeOf(met[i]); f != nil {
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
		if from != nil && from.Failure != nil && (in.Outcome == workflow.OnError || in.Outcome == workflow.OnAlways) && (from.Status == workflow.Failed || from.Status == workflow.TimedOut) {
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
