package planning

import (
	"errors"
	"slices"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// vars are the variables of one evaluation. They are looked up by name when an
// expression asks for them; nothing is converted as a whole.
//
// It is a small value that is copied for each evaluation: whoever adds a variable, such as
// payload, sets it on a copy.
type vars struct {
	p      *planner
	scope  workflow.Scope
	token  *state.Token // the token of the node; nil at the end of the run
	result any          // if bound
	bound  bool
	caught *workflow.Failure // if the expression may ask for error

	payload   any // of an event, if signalled
	signalled bool
}

var (
	_ expr.Payer  = vars{}
	_ expr.Signer = vars{}
)

// Pay implements expr.Payer. Every evaluation costs something beside its own steps, so that
// very many trivial ones are bounded too.
func (v vars) Pay(units int) { v.p.charge(units + limits.EvaluationCost) }

// RefusesNegativeZero implements expr.Signer: up to version 2 such a result failed its node.
func (v vars) RefusesNegativeZero() bool { return v.p.planLike() < 3 }

// Lookup implements expr.Vars.
//
// A name that is not bound here is absent, which is an error for an expression that asks for
// it. It returns state, output and nodes as this scope sees them: the writes of a branch
// over those of the scopes around it. The last resort is an element of a foreach, whose name
// the definition chooses.
func (v vars) Lookup(name string) (any, bool) {
	s := v.p.s
	switch name {
	case "input":
		return s.Input, true
	case state.SectionState, state.SectionOutput, state.SectionNodes:
		return s.Data(v.scope, name)
	case "result":
		return v.result, v.bound
	case "error":
		if v.caught == nil {
			return nil, false
		}
		return decision.FailureValue(v.caught), true
	case "run":
		return v.runObject(), true
	case "now":
		return v.p.now, true
	case "active":
		return activeView{s: s, own: v.token, atJoins: v.p.planLike() >= 4}, true
	case "count":
		return countView{s: s, of: v.token}, true
	case "branch":
		return v.branchObject()
	case "payload":
		return v.payload, v.signalled
	}
	return v.foreachElement(name)
}

// runObject returns the variable run. scheduledAt is absent, and not null, in a run that no schedule has started: an
// expression that returns the whole of run gives what it gave before there were schedules.
func (v vars) runObject() map[string]any {
	s := v.p.s
	d := s.Graph.Definition
	run := map[string]any{"id": string(s.Run), "workflow": d.Name, "version": int64(d.Version), "startedAt": s.StartedAt}
	if !s.ScheduledAt.IsZero() {
		run["scheduledAt"] = s.ScheduledAt
	}
	return run
}

// branchObject returns the variable branch: the innermost branch that the scope is in. total
// counts the branches made so far, which AddBranch may raise.
func (v vars) branchObject() (any, bool) {
	if v.scope.Group == 0 {
		return nil, false
	}
	g := v.p.s.Group(v.scope.Group)
	return map[string]any{"group": g.Name, "index": int64(v.scope.Branch), "total": int64(g.Total)}, true
}

// foreachElement returns item, index or an as name of the innermost foreach branch that has
// it. It looks from the inside out, so that an inner name hides an outer one, and an outer
// one with a name of its own stays visible. index is the place in the list, which is not that
// of the branch if other transitions have made branches of the group.
func (v vars) foreachElement(name string) (any, bool) {
	s := v.p.s
	for sc := v.scope; sc.Group != 0; {
		g := s.Group(sc.Group)
		id, at := g.SpawnOf(sc.Branch)
		if t := s.Graph.Transition(id); t != nil && t.Foreach != nil {
			switch name {
			case "index":
				return int64(at), true
			case "item", t.Foreach.As:
				return s.BranchItems(g.ID)[sc.Branch], true
			}
		}
		sc = g.Scope
	}
	return nil, false
}

// An activeView is the variable active: live tokens by node, without the one that completes.
// It is a view, because counting the tokens at all nodes for each condition would cost more
// than the condition.
type activeView struct {
	s       *state.State
	own     *state.Token
	atJoins bool // one that waits for its siblings is at the node of their join
}

var _ value.Object = activeView{}

// Get implements value.Object. A node that the definition does not have is absent; one that
// no token is at has 0. The token that completes is subtracted only while it still lives.
func (a activeView) Get(key string) (any, bool) {
	id := workflow.NodeID(key)
	if a.s.Graph.Node(id) == nil {
		return nil, false
	}
	n := a.s.LiveCountAt(id)
	if a.atJoins {
		n = a.s.StandingCountAt(id)
	}
	if a.ownNode() == id {
		n--
	}
	return int64(n), true
}

// ownNode returns the node at which the token counts that completes; "" if it lives no more.
func (a activeView) ownNode() workflow.NodeID {
	if a.own == nil {
		return ""
	}
	switch t := a.s.Token(a.own.ID); {
	case t == nil || !t.Live():
		return ""
	case a.atJoins && t.Status == workflow.WaitingForSiblings:
		return a.s.NodeOf(t)
	}
	return a.own.Node
}

// Keys implements value.Object.
func (a activeView) Keys() []string {
	out := make([]string, 0, len(a.s.Graph.Nodes))
	for id := range a.s.Graph.Nodes {
		out = append(out, string(id))
	}
	slices.Sort(out)
	return out
}

// Len implements value.Object.
func (a activeView) Len() int { return len(a.s.Graph.Nodes) }

// A countView is the variable count: the traversals of every loop transition in the lineage
// of a token. A transition without a loop is absent from it.
type countView struct {
	s  *state.State
	of *state.Token
}

var _ value.Object = countView{}

// Get implements value.Object.
func (c countView) Get(key string) (any, bool) {
	id := workflow.TransitionID(key)
	if t := c.s.Graph.Transition(id); t == nil || t.Loop == nil {
		return nil, false
	}
	if c.of == nil {
		return int64(0), true
	}
	return int64(c.of.Counts[id]), true
}

// Keys implements value.Object.
func (c countView) Keys() []string {
	out := make([]string, len(c.s.Graph.Loops))
	for i, id := range c.s.Graph.Loops {
		out[i] = string(id)
	}
	slices.Sort(out)
	return out
}

// Len implements value.Object.
func (c countView) Len() int { return len(c.s.Graph.Loops) }

// evalProgram evaluates a program; nil gives the result as it is.
//
// It is the one way to evaluate an expression for a value, so that a plan which has been
// given up evaluates nothing more.
func (v vars) evalProgram(prog *expr.Program) (any, *workflow.Failure) {
	if prog == nil {
		return v.result, nil
	}
	if f := v.p.overBudget(); f != nil {
		return nil, f
	}
	x, err := prog.Eval(v)
	if err != nil {
		return nil, evalFailure(prog, err)
	}
	return x, nil
}

// evalFailure returns the failure of an expression: limit_exceeded where a
// bound was met, expression_error otherwise.
func evalFailure(prog *expr.Program, err error) *workflow.Failure {
	f := &workflow.Failure{Code: workflow.CodeExpression, Permanent: true, Message: prog.Source() + ": " + err.Error()}
	var ee *expr.Error
	if errors.As(err, &ee) && ee.Code == expr.CodeLimit {
		f.Code = workflow.CodeLimit
	}
	return f
}
