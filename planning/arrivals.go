package planning

import (
	"iter"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/merge"
	"github.com/pawl-run/pawl/workflow"
)

// touchBranch notes that something in a branch has changed: drainWork then looks
// whether the branch has arrived or ended.
//
// Looking at once would be too early: the token that has just ended may be followed by one
// that is about to be made, and the branch would seem to have ended in between. Outside any
// group there is nothing to resolve. The same branch twice in a row is noted once.
func (p *planner) touchBranch(sc workflow.Scope) {
	if sc.Group == 0 {
		return
	}
	if n := len(p.touched); n > 0 && p.touched[n-1] == sc {
		return
	}
	p.touched = pace.Push(p.touched, sc)
}

// branchesOf ranges over the branches of a group that have a status, by index. The order by
// index is what makes merges and lists of errors independent of the order of arrival.
func (p *planner) branchesOf(g *state.Group, status state.BranchStatus) iter.Seq2[int, state.Branch] {
	return func(yield func(int, state.Branch) bool) {
		for i := range g.Total {
			pace.Each(i)
			b := p.s.Branch(workflow.Scope{Group: g.ID, Branch: i})
			if b.Status == status && !yield(i, b) {
				return
			}
		}
	}
}

// collectArrivals returns the values of the branches that have arrived, and the looping
// transitions by which they came, in definition order. A looping transition counts once,
// however many branches have come by it. If none has arrived, the group counts as having come
// by the first of its transitions; up to version 5 it counted for no loop then.
func (p *planner) collectArrivals(g *state.Group) ([]merge.Branch, []*compiled.Transition) {
	var out []merge.Branch
	taken := map[workflow.TransitionID]bool{}
	for i, b := range p.branchesOf(g, state.BranchArrived) {
		var sources []any
		for id := range b.Tokens.All() {
			t := p.s.Token(id)
			if t.Status == workflow.WaitingForSiblings {
				sources = append(sources, t.Source)
				taken[t.Via] = true
			}
		}
		out = append(out, merge.Branch{Index: i, Value: branchValue(sources)})
	}
	if len(out) == 0 && p.planLike() >= 6 {
		taken[p.s.Graph.Groups[g.Name].Joins[0].ID] = true
	}
	var loops []*compiled.Transition
	for _, id := range p.s.Graph.Loops {
		if taken[id] {
			loops = append(loops, p.s.Graph.Transition(id))
		}
	}
	return out, loops
}

// branchValue is the value of a branch: that of its token, or a list where several of its
// tokens wait. The list is in the order of the tokens.
func branchValue(sources []any) any {
	if len(sources) == 1 {
		return sources[0]
	}
	return sources
}

// listErrors writes the failures that a join tolerates to its errors target. It writes an
// empty list if nothing failed, so that what is behind the join finds one.
func (p *planner) listErrors(g *state.Group, spec *compiled.GroupSpec) *workflow.Failure {
	if spec.Sync.Errors == "" {
		return nil
	}
	list := []any{}
	if g.Failed > 0 {
		for i, b := range p.branchesOf(g, state.BranchFailed) {
			list = append(list, map[string]any{"index": int64(i), "code": b.Failure.Code, "message": b.Failure.Message})
		}
	}
	if f := p.checkWritable(g.Scope, spec.Errors, list); f != nil {
		return f
	}
	p.decide(decision.ListErrors{Group: g.ID, Scope: g.Scope, Path: spec.Errors.Segments, Append: spec.Errors.Append, Value: list})
	return p.checkPath(g.Scope, spec.Errors)
}
