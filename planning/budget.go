package planning

import (
	"fmt"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A budget bounds the work of one plan. The plan's expressions are charged to it,
// and every decision adds to what may be spent: a plan that brings about more may
// cost more. Checks against schemas have a bound of their own, limits.MaxSchemaCost.
//
// A planner and its forks share one. limit is set once, and the first bound that was met is
// the one told; the planner then decides nothing more, and Step answers with a plan that
// fails the run.
type budget struct {
	allowed, spent int // units of cost
	checks         int // units spent for schemas
	pacer          pace.Pacer
	limit          *workflow.Failure // of the run, once the plan is given up
}

// newBudget returns the budget of a plan for a run of a definition, which may lower what
// expressions cost.
func newBudget(g *compiled.Graph) *budget {
	return &budget{allowed: limits.PlanCosts * int(g.Limits.CELCost)}
}

// exceedLimit gives the plan up because it would exceed a limit: the run fails. It does not
// end the plan by a panic or an error: the loops find it by hasStopped, and evaluations by
// overBudget.
func (p *planner) exceedLimit(limit string, most int, what string) {
	if p.budget.limit == nil {
		f := limitFailure(limit, most, what)
		p.budget.limit = &f
	}
}

// limitFailure returns the failure of a node or a run that a limit does not allow; most is
// the limit.
func limitFailure(limit string, most int, what string) workflow.Failure {
	return workflow.Failure{
		Code: workflow.CodeLimit, Permanent: true,
		Message: fmt.Sprintf("limit %s: more than %d %s", limit, most, what),
	}
}

// refuseValue returns why a value that a caller gives is refused, nil if it is not: it is
// deeper or larger than the definition takes. The run does not change, since the caller can
// mend what it sends.
func (p *planner) refuseValue(v any) error { return p.refuseMeasure(value.MeasureOf(v)) }

// refuseMeasure is refuseValue of a value that was measured.
func (p *planner) refuseMeasure(m value.Measure) error {
	l := p.s.Graph.Limits
	if m.Depth > l.JSONDepth {
		return &workflow.LimitError{Limit: value.LimitDepth, Max: int64(l.JSONDepth)}
	}
	if m.Size > l.PayloadBytes {
		return &workflow.LimitError{Limit: value.LimitBytes, Max: int64(l.PayloadBytes), Got: int64(m.Size)}
	}
	return nil
}

// unfitResult returns the failure of a node whose result is deeper or larger than the
// definition takes, nil if it is not. It fails the attempt, and an error transition may catch
// it.
func (p *planner) unfitResult(m value.Measure) *workflow.Failure {
	l := p.s.Graph.Limits
	if m.Depth > l.JSONDepth {
		f := limitFailure(value.LimitDepth, l.JSONDepth, "containers inside each other in the result")
		return &f
	}
	if m.Size > l.PayloadBytes {
		return &workflow.Failure{
			Code: workflow.CodeResultTooLarge, Permanent: true,
			Message: fmt.Sprintf("the result has %d bytes, at most %d are taken inline", m.Size, l.PayloadBytes),
		}
	}
	return nil
}

// charge spends units of the budget, and gives the plan up if they exceed it. An expression
// is charged when it has been evaluated. Each is bounded by itself as well, so that a plan
// does little more than it may.
func (p *planner) charge(units int) {
	p.budget.pacer.Spend(units)
	if p.budget.spent += units; p.budget.spent > p.budget.allowed {
		p.exceedLimit("planCost", p.budget.allowed, "units for the expressions of one message")
	}
}

// overBudget returns the failure with which the plan was given up, nil if it was
// not. It is asked before every evaluation, so that a plan which has been given up
// evaluates nothing more, even within one node.
func (p *planner) overBudget() *workflow.Failure { return p.budget.limit }
