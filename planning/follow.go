package planning

import (
	"fmt"
	"slices"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A step is one matched transition with what taking it needs, evaluated before
// anything is decided.
type step struct {
	*workflow.GraphTransition
	joins  workflow.Scope // the branch that waits at its join; zero if it passes straight
	source any            // of the merge
	count  int            // branches it makes
	items  []any          // of a foreach
}

// A branchFailure is a failure that ends a branch without asking the error
// transitions of the node: the merge source of an arrival.
type branchFailure struct {
	scope   workflow.Scope
	failure *workflow.Failure
}

// prepare evaluates what following the transitions needs.
func (p *planner) prepare(ts []*workflow.GraphTransition, v vars) ([]step, *branchFailure, *workflow.Failure) {
	steps := make([]step, len(ts))
	for i, t := range ts {
		steps[i] = step{GraphTransition: t}
		st := &steps[i]
		if st.joins = p.standsIn(v.scope, t); st.joins.Group != 0 {
			var f *workflow.Failure
			if t.Synchronization.Merge != nil && !p.late(st.joins) {
				st.source, f = v.eval(t.Source)
			}
			if f != nil {
				return nil, &branchFailure{st.joins, f}, nil
			}
			continue
		}
		if f := p.spawn(st, v); f != nil {
			return nil, nil, f
		}
	}
	return steps, nil, nil
}

// standsIn returns the branch of the innermost occurrence of t's group that
// scope sc stands in; the zero Scope if it stands in none.
func (p *planner) standsIn(sc workflow.Scope, t *workflow.GraphTransition) workflow.Scope {
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

// spawn works out how many branches a transition makes.
func (p *planner) spawn(st *step, v vars) *workflow.Failure {
	switch {
	case st.SpawnCount > 0:
		st.count = st.SpawnCount
	case st.Foreach == nil:
		st.count = 1
	default:
		x, f := v.eval(st.Collection)
		if f != nil {
			return f
		}
		items, ok := x.([]any)
		if !ok {
			return &workflow.Failure{
				Code: workflow.CodeExpression, Permanent: true,
				Message: fmt.Sprintf("foreach %s: %s is not a list", st.Foreach.Collection, value.Encode(x)),
			}
		}
		st.count, st.items = len(items), items
	}
	if most := p.s.Graph.Limits.Foreach; st.Foreach != nil && st.count > most {
		f := limitFailure("foreach", most, "branches of one transition")
		return &f
	}
	return nil
}

// follow takes the transitions of a node that has completed, or whose failure
// was caught. Their tokens are made in definition order, those of one sibling
// group together at its first transition. ends ends the token itself, given how
// at the first join it arrives at, nil if there is none, and reports whether it
// waits there itself; where it cannot, another token is carried there.
func (p *planner) follow(steps []step, v vars, ends func(arrival *decision.AwaitSiblings) bool) {
	if p.dag() {
		ends(nil)
		p.followSteps(steps, v)
		return
	}
	var made []string
	arrival := p.arrival(steps)
	waits := ends(arrival)
	for i := range steps {
		st := &steps[i]
		switch {
		case st.joins.Group != 0:
			if !waits || arrival.Via != st.ID {
				p.carry(st, v)
			}
		case !st.Fans():
			t := v.token
			if st.Loop != nil {
				p.pay(workflow.CountCost * len(t.Counts))
			}
			p.create(workflow.Token{Node: st.To, Via: p.meeting(st.ID, st.To), Parent: t.ID, Scope: v.scope, Counts: decision.Traverse(p.s.Graph, t.Counts, st.GraphTransition), Caught: v.caught}, v.result)
		case st.SiblingGroup == "":
			p.fanOut("", steps[i:i+1], v)
		case !slices.Contains(made, st.SiblingGroup):
			made = append(made, st.SiblingGroup)
			p.fanOut(st.SiblingGroup, steps[i:], v)
		}
	}
	p.touch(v.scope)
}

// arrival returns how the token itself arrives at a join: by the first of the
// synchronizing transitions; nil if there is none.
func (p *planner) arrival(steps []step) *decision.AwaitSiblings {
	for i := range steps {
		if st := &steps[i]; st.joins.Group != 0 {
			return &decision.AwaitSiblings{Scope: st.joins, Via: st.ID, Source: st.source}
		}
	}
	return nil
}

// carry makes a further token that arrives at a join, where the one that
// completed is needed elsewhere or has failed. Where it would change nothing,
// none is made.
func (p *planner) carry(st *step, v vars) {
	if p.late(st.joins) {
		p.touch(st.joins)
		return
	}
	id := p.s.NextToken
	if p.crowded(1) {
		return
	}
	p.decide(decision.CreateToken{Token: workflow.Token{ID: id, Node: v.token.Node, Parent: v.token.ID, Scope: v.scope, Counts: v.token.Counts}})
	p.arrive(decision.AwaitSiblings{Token: id, Scope: st.joins, Via: st.ID, Source: st.source})
}

// late reports whether a token is too late for the join of a branch: the join,
// or the branch, is decided already. It is a straggler, and just ends.
func (p *planner) late(sc workflow.Scope) bool {
	return p.s.Group(sc.Group).Phase != workflow.Gathering || p.s.Branch(sc).Status != workflow.BranchRunning
}

// arrive lets a token wait at the join of a branch, unless it is late.
func (p *planner) arrive(d decision.AwaitSiblings) {
	if p.late(d.Scope) {
		p.decide(decision.CompleteToken{Token: d.Token, Output: d.Output, Metadata: d.Metadata, Skipped: d.Skipped})
	} else {
		p.decide(d)
	}
	p.touch(d.Scope)
}

// fanOut makes one group of those steps that name it.
func (p *planner) fanOut(name string, steps []step, v vars) {
	g := workflow.Group{
		ID: p.s.NextGroup, Name: name, Origin: v.token.ID, Node: v.token.Node, Scope: v.scope,
		Counts: v.token.Counts, First: p.s.NextToken, Caught: v.caught,
	}
	var items []any
	for i := range steps {
		if st := &steps[i]; st.SiblingGroup == name && st.Fans() && st.joins.Group == 0 {
			items = p.join(&g, items, st)
		}
	}
	if p.crowded(g.Total) || p.deep(v.scope) {
		return
	}
	if name == "" && g.Max >= g.Total {
		g.Max = 0
	}
	if (g.Max > 0 || name != "") && p.asked(&g) {
		g.Result = v.result // for branches that begin later
	}
	if g.Total == 0 {
		items = nil
	}
	p.decide(decision.CreateBranches{Group: g, Items: items})
	p.fans = append(p.fans, fan{g.ID, v.result})
}

// asked reports whether the branches of a group begin with the origin's result:
// it may be large, and is written with the group whenever a branch begins.
func (p *planner) asked(g *workflow.Group) bool {
	return slices.ContainsFunc(g.Spawns, func(sp workflow.Spawn) bool {
		return p.s.Graph.Node(p.s.Graph.Transition(sp.Transition).To).AsksResult
	})
}

// deep reports whether a group in scope sc would exceed the bound of groups
// within each other, each of which costs with every token in them; the plan is
// then given up.
func (p *planner) deep(sc workflow.Scope) bool {
	n := 1
	for ; sc.Group != 0; n++ {
		sc = p.s.Group(sc.Group).Scope
	}
	if n > workflow.MaxNesting {
		p.exceed("nesting", workflow.MaxNesting, "groups within each other")
	}
	return p.purse.limit != nil
}

// open lets a new group's branches begin, unless its join decides at once.
func (p *planner) open(f fan) {
	g := p.s.Group(f.group)
	if g.Phase != workflow.Gathering {
		return // cancelled before it began
	}
	if sync := p.syncOf(g); g.Total == 0 || sync != nil && sync.Strategy.Quorum() > g.Total && !g.Open {
		p.conclude(g.ID, nil)
	}
	p.startBranches(g.ID, f.result)
}

// join adds the branches of one transition to a group.
func (p *planner) join(g *workflow.Group, items []any, st *step) []any {
	if st.items != nil && items == nil {
		items = make([]any, g.Total, g.Total+st.count)
	}
	if items != nil {
		items = append(items, st.items...)
		for len(items) < g.Total+st.count {
			items = append(items, nil)
		}
	}
	g.Spawns = append(g.Spawns, workflow.Spawn{Transition: st.ID, Count: st.count})
	g.Total += st.count
	g.Open = g.Open || st.Open
	if st.MaxConcurrency > 0 && (g.Max == 0 || st.MaxConcurrency < g.Max) {
		g.Max = st.MaxConcurrency
	}
	return items
}

// startBranches lets as many branches of a group begin as its bound allows. Of
// a group that has fired without cancelling, they begin as stragglers. Branches
// whose token was cancelled before are passed over.
func (p *planner) startBranches(id workflow.GroupID, result any) {
	g := p.s.Group(id)
	if g.Started == g.Total || p.stopped() {
		return
	}
	most := g.Total
	if g.Max > 0 {
		most = g.Max - g.Running()
	}
	passed := 0
	var begin []entry
	for i := g.Started; i < g.Total && len(begin) < most; i++ {
		if t := p.s.Token(g.TokenOf(i)); t.Live() {
			begin = pace.Push(begin, entry{token: t.ID, result: result})
			passed = i + 1 - g.Started
		}
	}
	if len(begin) == 0 {
		return
	}
	p.decide(decision.StartBranches{Group: id, Count: passed})
	p.entries = pace.Append(p.entries, begin...)
}

// touch notes that a branch may have arrived or ended.
func (p *planner) touch(sc workflow.Scope) {
	if sc.Group == 0 {
		return
	}
	if n := len(p.touched); n > 0 && p.touched[n-1] == sc {
		return
	}
	p.touched = pace.Push(p.touched, sc)
}
