package planning

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// FindToken returns the token that an operator means: by id, or the only one at a node
// whose status is among those given. Errors: state.ErrNotLive, state.ErrAmbiguous.
//
// A node is enough where only one token fits, which is the usual case; where several do the
// caller has to choose, because a guess might act on the wrong branch.
func FindToken(s *state.State, id workflow.TokenID, node workflow.NodeID, statuses ...workflow.TokenStatus) (*state.Token, error) {
	if id != 0 {
		return tokenIn(s, id, statuses)
	}
	if node == "" {
		return nil, fmt.Errorf("%w: name a thread or a node", state.ErrNotLive)
	}
	if s.Graph.Nodes[node] == nil {
		return nil, fmt.Errorf("%w: there is no node %q", state.ErrNotLive, string(node))
	}
	var found *state.Token
	for _, live := range s.LiveTokens() {
		t := s.Token(live)
		if t.Node != node || !slices.Contains(statuses, operatedStatus(s, t)) {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("%w: there are the threads %d and %d at node %q; name one", state.ErrAmbiguous, found.ID, t.ID, string(node))
		}
		found = t
	}
	if found == nil {
		return nil, fmt.Errorf("%w: no thread at node %q is %s", state.ErrNotLive, string(node), statusList(statuses))
	}
	return found, nil
}

// tokenIn returns a token that an operator means, if it is in one of the statuses.
func tokenIn(s *state.State, id workflow.TokenID, statuses []workflow.TokenStatus) (*state.Token, error) {
	t := s.Token(id)
	if t == nil {
		return nil, fmt.Errorf("%w: there is no thread %d", state.ErrNotLive, id)
	}
	if !slices.Contains(statuses, operatedStatus(s, t)) {
		return nil, fmt.Errorf("%w: thread %d at node %q is %s, not %s", state.ErrNotLive, id, string(t.Node), t.Status, statusList(statuses))
	}
	return t, nil
}

// operatedStatus returns the status of a token for an operator. A token that a pause holds back
// from its next attempt still waits for that, although its back-off is over. Up to version 5
// no operator could mean such a token, and a node was enough for another one there.
func operatedStatus(s *state.State, t *state.Token) workflow.TokenStatus {
	if t.Held && hasBegun(t) && rulesOf(s) >= 6 {
		return workflow.Retrying
	}
	return t.Status
}

// hasBegun reports whether a token has begun at its node, if only to wait for room below a limit
// of what the run may report.
func hasBegun(t *state.Token) bool { return t.Attempt > 0 || t.Remembered().Short }

// statusList names the statuses that would do.
func statusList(statuses []workflow.TokenStatus) string {
	var names []string
	for _, s := range statuses {
		names = append(names, s.String())
	}
	return strings.Join(names, " or ")
}

// findTask returns the token of a task that an operator means, if it is in one of the statuses, or parked if the operator
// means that only: whoever acts on dead letters has read of them some time before, and takes no attempt from another who
// has retried one meanwhile.
func (p *planner) findTask(id workflow.TokenID, node workflow.NodeID, parked bool, statuses ...workflow.TokenStatus) (*state.Token, error) {
	if parked {
		statuses = []workflow.TokenStatus{workflow.WaitingForOperator}
	}
	return FindToken(p.s, id, node, statuses...)
}

// retryNow gives a parked task a fresh budget, or ends a back-off at once. If the
// task's input is to be evaluated anew and cannot be, nothing changes.
//
// A parked task keeps its attempt numbers and gets a new Base, so that the retry policy
// counts from here. One in a back-off keeps its budget: only the wait is cut short. A
// task that a pause holds back keeps its place in line until the run resumes.
func (p *planner) retryNow(m state.Retry) error {
	t, err := p.findTask(m.Token, m.Node, m.Parked, workflow.WaitingForOperator, workflow.Retrying)
	if err != nil {
		return err
	}
	// Evaluated first: an error refuses the retry, and nothing has been decided yet.
	renewed, err := p.evalInputAnew(t, m.Input)
	if err != nil {
		return err
	}
	if t.Status == workflow.WaitingForOperator {
		p.decide(decision.RetryTask{Token: t.ID, Due: p.now, Base: t.Attempt, Snoozed: p.snoozesOf(t), Failure: t.Failure})
	}
	if renewed != nil {
		p.decide(*renewed)
	}
	if again := p.s.Token(t.ID); !p.hasStopped() && !again.Held {
		p.beginNextAttempt(again)
	}
	return nil
}

// skipTask completes a task in the operator's name. The key of an attempt that runs
// becomes stale.
//
// The rules for a task's output hold for the operator's: its schema, its size, the output
// mapping and the routing. Where a task would fail, the operator is refused, and can do
// better.
func (p *planner) skipTask(m state.Skip) error {
	t, err := p.findTask(m.Token, m.Node, m.Parked, workflow.Dispatched, workflow.Retrying, workflow.WaitingForOperator, workflow.WaitingForBudget)
	if err != nil {
		return err
	}
	if err := p.refuseValue(m.Output); err != nil {
		return err
	}
	if err := p.refuseMisfit(t.Node, m.Output); err != nil {
		return fmt.Errorf("skip node %q: %w", string(t.Node), err)
	}
	branch, f := p.leaveNode(t, p.s.Graph.Node(t.Node), completion{output: m.Output, skipped: true})
	if branch != nil {
		f = branch.failure
	}
	if f != nil {
		return fmt.Errorf("skip node %q: %w", string(t.Node), f)
	}
	return nil
}

// refuseMisfit returns the failure that a task's output which does not fit its node's schema would be, or a
// *workflow.LimitError if the check costs too much. The plan goes on, as one that decides nothing.
func (p *planner) refuseMisfit(node workflow.NodeID, output any) error {
	err := p.checkSchema(p.s.Graph.Node(node).Schema, output)
	var misfit *workflow.SchemaError
	if !errors.As(err, &misfit) {
		return err
	}
	return &workflow.Failure{Code: workflow.CodeSchema, Permanent: true, Message: "the result of the node: " + misfit.Error()}
}
