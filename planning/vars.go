package planning

import (
	"errors"
	"slices"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// vars are the variables of one evaluation. They are looked up by name when an
// expression asks for them; nothing is converted as a whole.
type vars struct {
	p      *planner
	scope  workflow.Scope
	token  *state.Token // whose node it is about; nil at the end of the run
	result any          // if bound
	bound  bool
	caught *workflow.Failure // if the expression may ask for error

	payload   any // of an event, if signalled
	signalled bool
}

var _ expr.Payer = vars{}

// Pay implements expr.Payer.
func (v vars) Pay(units int) { v.p.charge(units + workflow.EvaluationCost) }

// Lookup implements expr.Vars.
func (v vars) Lookup(name string) (any, bool) {
	s := v.p.s
	switch name {
	case "input":
		return s.Input, true
	case workflow.SectionState, workflow.SectionOutput, workflow.SectionNodes:
		return s.Data(v.scope, name)
	case "result":
		return v.result, v.bound
	case "error":
		if v.caught == nil {
			return nil, false
		}
		return decision.FailureValue(v.caught), true
	case "run":
		d := s.Graph.Definition
		return map[string]any{"id": string(s.Run), "workflow": d.Name, "version": int64(d.Version), "startedAt": s.StartedAt}, true
	case "now":
		return v.p.now, true
	case "active":
		return activeView{s: s, own: v.token}, true
	case "count":
		return countView{s: s, of: v.token}, true
	case "branch":
		return v.branchObject()
	case "payload":
		return v.payload, v.signalled
	}
	return v.foreachElement(name)
}

func (v vars) branchObject() (any, bool) {
	if v.scope.Group == 0 {
		return nil, false
	}
	g := v.p.s.Group(v.scope.Group)
	return map[string]any{"group": g.Name, "index": int64(v.scope.Branch), "total": int64(g.Total)}, true
}

// foreachElement returns item, index or an as name of the innermost foreach branch
// that has it.
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

// An activeView is the variable active: live tokens by node, without the one
// that completes.
type activeView struct {
	s   *state.State
	own *state.Token
}

var _ value.Object = activeView{}

// Get implements value.Object.
func (a activeView) Get(key string) (any, bool) {
	id := workflow.NodeID(key)
	if a.s.Graph.Node(id) == nil {
		return nil, false
	}
	n := a.s.LiveCountAt(id)
	if a.own != nil && a.own.Node == id {
		if t := a.s.Token(a.own.ID); t != nil && t.Live() {
			n--
		}
	}
	return int64(n), true
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

// A countView is the variable count: the traversals of every loop transition in
// the lineage of a token.
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
