package planning

import (
	"fmt"

	"github.com/pawl-run/pawl/workflow"
)

// A purse bounds the work of one plan. What its expressions cost is paid out of
// it; every decision adds to what may be spent, so that a plan may cost more the
// more it brings about.
type purse struct {
	allowed, spent int               // units of cost
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

// pay spends some units.
func (p *planner) pay(units int) {
	if p.purse.spent += units; p.purse.spent > p.purse.allowed {
		p.exceed("planCost", p.purse.allowed, "units for the expressions of one message")
	}
}

// broke returns why nothing more may be evaluated, nil if it may: a plan that is
// given up does not go on within one node.
func (p *planner) broke() *workflow.Failure { return p.purse.limit }
