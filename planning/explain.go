package planning

import (
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A Route says which transitions a token took as it left its node.
type Route struct {
	Token       workflow.TokenID
	Node        workflow.NodeID
	Transitions []workflow.TransitionID // in definition order; none if no transition matched
	Caught      *workflow.Failure       // what error transitions caught; nil if the node completed
}

// Explain plans as [Step] does, with the same plan and the same errors, and returns as
// well which transitions were taken, in order. It is for those who look at a run
// afterwards.
func Explain(s *state.State, m state.Message, now time.Time) (decision.Plan, []Route, error) {
	routes := []Route{}
	plan, err := planMessage(s, m, now, &routes)
	return plan, routes, err
}

// noteRoute notes which transitions a token takes, if somebody asks.
func (p *planner) noteRoute(matches []match, v vars) {
	if p.routes == nil || p.hasStopped() {
		return
	}
	r := Route{Token: v.token.ID, Node: v.token.Node, Caught: v.caught}
	for i := range matches {
		r.Transitions = append(r.Transitions, matches[i].ID)
	}
	*p.routes = append(*p.routes, r)
}
