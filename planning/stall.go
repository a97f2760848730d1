package planning

import (
	"fmt"
	"strings"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// Waits reports whether a run waits for something that comes by itself or from
// outside: a timer, an event, an approval, a child, an operator, a further
// branch. A task that is out counts only if it can time out.
//
// It is asked of runs that have been quiet for long, so that one which waits for a person is
// not taken for one whose task was lost. A lock or a join is no such thing: it depends on
// tokens that wait for something else.
func Waits(s *state.State) bool {
	if s.Status != workflow.RunRunning || s.OpenGroups() > 0 || !s.NextDue().IsZero() {
		return true
	}
	for _, status := range []workflow.TokenStatus{
		workflow.WaitingForTimer, workflow.WaitingForEvent, workflow.WaitingForApproval, workflow.WaitingForChild,
		workflow.WaitingForOperator, workflow.Retrying,
	} {
		if s.CountByStatus(status) > 0 {
			return true
		}
	}
	return false
}

// failGrown fails the run if it takes more bytes on the disk than its definition allows. It
// comes after a commit, whose bytes cannot be known before. A run whose limit was raised
// since is left alone.
func (p *planner) failGrown(m state.RunGrown) {
	if most := p.s.Graph.Limits.RunBytes; m.Bytes > most {
		p.decide(decision.FailRun{At: p.now, Failure: workflow.Failure{
			Code: workflow.CodeLimit, Permanent: true,
			Message: fmt.Sprintf("limit runBytes: the run takes %d bytes on the disk, at most %d: use a blob for what is large", m.Bytes, most),
		}})
	}
}

// failStalled fails the run if it has not moved since it was looked at and waits for nothing,
// and says what it had hoped for. The number of events tells whether it has moved: every
// message that changes something the world sees has one.
func (p *planner) failStalled(m state.Stall) error {
	if p.s.Events != m.Events || Waits(p.s) {
		return nil
	}
	const most = 10
	var out []string
	for _, id := range p.s.LiveTokens() {
		t := p.s.Token(id)
		if t.Status != workflow.Dispatched {
			continue
		}
		if len(out) == most {
			out = append(out, fmt.Sprintf("and %d more", p.s.CountByStatus(workflow.Dispatched)-most))
			break
		}
		out = append(out, fmt.Sprintf("%v of node %q (task type %q, attempt %d)", t.ID, string(t.Node), t.TaskAt(p.s.Graph.Node(t.Node)), t.Attempt))
	}
	p.decide(decision.FailRun{At: p.now, Failure: workflow.Failure{
		Code: workflow.CodeStalled, Permanent: true,
		Message: fmt.Sprintf("no progress for %v; no result came for %s", m.Idle, strings.Join(out, ", ")),
	}})
	return nil
}
