package planning

import (
	"slices"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/merge"
	"github.com/pawl-run/pawl/workflow"
)

// A firing says why a join fires without all that it waited for.
type firing struct {
	shortfall bool
	timedOut  bool
}

// fire merges what has arrived at a group's join, ends the group and makes its
// one continuation, in the place of the token that fanned out.
func (p *planner) fire(g *workflow.Group, why firing) {
	spec := p.s.Graph.Groups[g.Name]
	arrivals, loops := p.arrivals(g)
	q := p.fork()
	merged, f := q.merge(g, spec, arrivals)
	if f == nil {
		f = q.listErrors(g, spec)
	}
	if f != nil {
		p.failGroup(g.ID, f, firing{})
		return
	}
	via := p.meeting(p.arrivedBy(g, spec), spec.To)
	p.adopt(q)
	p.decide(decision.FireGroup{Group: g.ID, Cancel: cancels(spec.Sync), Shortfall: why.shortfall, TimedOut: why.timedOut})
	p.disarm(p.s.Group(g.ID))
	p.startBranches(g.ID, g.Result)
	counts := g.Counts
	for _, t := range loops {
		counts = decision.Traverse(p.s.Graph, counts, t)
	}
	p.create(workflow.Token{Node: spec.To, Via: via, Parent: g.Origin, Scope: g.Scope, Counts: counts}, merged)
	p.touch(g.Scope)
}

// cancels reports whether a join that fires cancels what still runs.
func cancels(sync *workflow.Synchronization) bool {
	return sync.Remaining == "" || sync.Remaining == workflow.RemainingCancel
}

// arrivals returns the values of the branches that have arrived, and the
// looping transitions that brought them, in definition order.
func (p *planner) arrivals(g *workflow.Group) ([]merge.Branch, []*workflow.GraphTransition) {
	var out []merge.Branch
	taken := map[workflow.TransitionID]bool{}
	for i := range g.Total {
		b := p.s.Branch(workflow.Scope{Group: g.ID, Branch: i})
		if b.Status != workflow.BranchArrived {
			continue
		}
		var sources []any
		for _, id := range b.Tokens {
			t := p.s.Token(id)
			if t.Status == workflow.WaitingForSiblings {
				sources = append(sources, t.Source)
				taken[t.Via] = true
			}
		}
		out = append(out, merge.Branch{Index: i, Value: branchValue(sources)})
	}
	var loops []*workflow.GraphTransition
	for _, id := range p.s.Graph.Loops {
		if taken[id] {
			loops = append(loops, p.s.Graph.Transition(id))
		}
	}
	return out, loops
}

// branchValue is the value of a branch: its token's, or the list of them where
// several tokens wait.
func branchValue(sources []any) any {
	if len(sources) == 1 {
		return sources[0]
	}
	return slices.Clone(sources)
}

// merge folds the values of the arrived branches into the target of the join.
func (p *planner) merge(g *workflow.Group, spec *workflow.GroupSpec, arrivals []merge.Branch) (any, *workflow.Failure) {
	m := spec.Sync.Merge
	if m == nil {
		return nil, nil
	}
	v, err := merge.Apply(merge.Strategy(m.Strategy), arrivals)
	if err != nil {
		return nil, &workflow.Failure{Code: workflow.CodeMerge, Permanent: true, Message: err.Error()}
	}
	if value.Size(v) > workflow.MaxMergedBytes {
		f := limitFailure("mergedBytes", workflow.MaxMergedBytes, "bytes of a merged value")
		return nil, &f
	}
	if f := p.writable(g.Scope, spec.Target, v); f != nil {
		return nil, f
	}
	p.decide(decision.MergeBranches{Group: g.ID, Scope: g.Scope, Path: spec.Target.Segments, Append: spec.Target.Append, Value: v})
	return v, p.fits(g.Scope, spec.Target)
}

// listErrors writes the failures that a join tolerates to its errors target.
func (p *planner) listErrors(g *workflow.Group, spec *workflow.GroupSpec) *workflow.Failure {
	if spec.Sync.Errors == "" {
		return nil
	}
	list := []any{}
	for i := 0; i < g.Total && len(list) < g.Failed; i++ {
		if b := p.s.Branch(workflow.Scope{Group: g.ID, Branch: i}); b.Status == workflow.BranchFailed {
			list = append(list, map[string]any{"index": int64(i), "code": b.Failure.Code, "message": b.Failure.Message})
		}
	}
	if f := p.writable(g.Scope, spec.Errors, list); f != nil {
		return f
	}
	p.decide(decision.ListErrors{Group: g.ID, Scope: g.Scope, Path: spec.Errors.Segments, Append: spec.Errors.Append, Value: list})
	return p.fits(g.Scope, spec.Errors)
}

// arrivedBy returns the synchronizing transition by which a group goes on: that
// of its first branch that arrived, or the first of all.
func (p *planner) arrivedBy(g *workflow.Group, spec *workflow.GroupSpec) workflow.TransitionID {
	if p.s.Graph.Node(spec.To).Join == workflow.JoinNone {
		return ""
	}
	for i := range g.Total {
		b := p.s.Branch(workflow.Scope{Group: g.ID, Branch: i})
		if b.Status != workflow.BranchArrived {
			continue // a token of it may wait, but others of it live
		}
		for _, id := range b.Tokens {
			if t := p.s.Token(id); t.Status == workflow.WaitingForSiblings {
				return t.Via
			}
		}
	}
	return spec.Joins[0].ID
}
