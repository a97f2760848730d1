package planning

import (
	"fmt"

	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A purse bounds the work of one plan. What its expressions cost is paid out of
// it; every decision adds to what may be spent, so that a plan may cost more the
// more it brings about.
type purse struct {
	allowed, spent int // units of cost
	pacer          pace.Pacer
	limit          *workflow.Failure // of the run, once the plan is given up
}

func newPurse(g *workflow.Graph) *purse {
	return &purse{allowed: workflow.PlanCosts * int(g.Limits.CELCost)}
}

// exceed gives the plan up: the run fails instead.
func (p *planner) exceed(limit string, most int, what string) {
	if p.purse.limit == nil {
		f := limitFailure(limit, most, what)
		p.purse.limit = &f
	}
}

func limitFailure(limit string, most int, what string) workflow.Failure {
	return workflow.Failure{
		Code: workflow.CodeLimit, Permanent: true,
		Message: fmt.Sprintf("limit %s: more than %d %s", limit, most, what),
	}
}

// refuses returns why a value that a caller gives is refused, nil if it is not:
// it is deeper or larger than the definition takes.
func (p *planner) refuses(v any) error {
	l := p.s.Graph.Limits
	if value.Deeper(v, l.JSONDepth) {
		return &workflow.LimitError{Limit: value.LimitDepth, Max: int64(l.JSONDepth)}
	}
	if size := value.Size(v); size > l.PayloadBytes {
		return &workflow.LimitError{Limit: value.LimitBytes, Max: int64(l.PayloadBytes), Got: int64(size)}
	}
	return nil
}

// unfitResult returns the failure of a node whose result is deeper or larger
// than the definition takes, nil if it is not.
func (p *planner) unfitResult(v any) *workflow.Failure {
	l := p.s.Graph.Limits
	if value.Deeper(v, l.JSONDepth) {
		f := limitFailure(value.LimitDepth, l.JSONDepth, "containers inside each other in the result")
		return &f
	}
	if size := value.Size(v); size > l.PayloadBytes {
		return &workflow.Failure{
			Code: workflow.CodeResultTooLarge, Permanent: true,
			Message: fmt.Sprintf("the result has %d bytes, at most %d are taken inline", size, l.PayloadBytes),
		}
	}
	return nil
}

// pay spends some units.
func (p *planner) pay(units int) {
	p.purse.pacer.Spend(units)
	if p.purse.spent += units; p.purse.spent > p.purse.allowed {
		p.exceed("planCost", p.purse.allowed, "units for the expressions of one message")
	}
}

// broke returns why nothing more may be evaluated, nil if it may: a plan that is
// given up does not go on within one node.
func (p *planner) broke() *workflow.Failure { return p.purse.limit }
