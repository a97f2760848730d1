package planning

import (
	"fmt"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// beginApproval lets a token wait for people's votes. They are shown the node's message and
// its input. Message and input are evaluated once, when people are asked, and stay as they
// are while data change.
func (p *planner) beginApproval(t *state.Token, n *compiled.Node, v vars) {
	d := decision.RequestApproval{Token: t.ID, Attempt: t.Attempt + 1, Message: n.Approval.Message, Due: timeout.Deadline(p.now, n.Timeout)}
	var f *workflow.Failure
	if len(n.Input) > 0 {
		d.Input, f = p.evalInput(n, v)
	}
	if f == nil && n.Message != nil {
		d.Evaluated = true
		d.Message, f = p.evalMessage(n, v)
	}
	if f != nil {
		p.failAttempt(t, f, false)
		return
	}
	p.decide(d)
}

// evalMessage evaluates what the people of an approval are asked.
func (p *planner) evalMessage(n *compiled.Node, v vars) (string, *workflow.Failure) {
	return v.evalText(n.Message, "what people are asked", "the message of an approval")
}

// evalText evaluates an expression of a text, of what is said in words, for a message.
func (v vars) evalText(program *expr.Program, what, of string) (string, *workflow.Failure) {
	x, f := v.evalProgram(program)
	if f != nil {
		return "", f
	}
	text, ok := x.(string)
	switch {
	case !ok:
		return "", &workflow.Failure{Code: workflow.CodeExpression, Permanent: true, Message: program.Source() + ": " + what + " is a text: use string(...)"}
	case len(text) > limits.MaxQuestion:
		f := limitFailure("messageBytes", limits.MaxQuestion, "bytes of "+of)
		return "", &f
	}
	return text, nil
}

// requestApprovalAgain lets a token wait for people once more, who are asked the same.
func (p *planner) requestApprovalAgain(t *state.Token, n *compiled.Node) {
	d := decision.RequestApproval{Token: t.ID, Attempt: t.Attempt + 1, Message: n.Approval.Message, Due: timeout.Deadline(p.now, n.Timeout)}
	d.Input, _ = t.Input.(map[string]any)
	if m := t.Remembered().Message; m != "" {
		d.Message, d.Evaluated = m, true
	}
	p.decide(d)
}

// addVote adds a vote to an approval, and decides it if that makes a quorum.
//
// One vote per person. A repeat with the same id is nil, always; without an id only by token, while it is open: a vote by node may
// mean another approval, where the node comes again. quorum votes for it approve, rejectQuorum votes against it reject, whichever
// comes first.
func (p *planner) addVote(m state.Ballot) error {
	if p.s.KnowsCall(state.VoteIDs, m.ID) {
		return nil
	}
	t, err := FindToken(p.s, m.Token, m.Node, workflow.WaitingForApproval)
	if err != nil {
		return err
	}
	// This vote and those before it that say the same.
	same := 1
	for _, v := range t.Votes {
		if v.By == m.By && m.Token != 0 && v.Approved == m.Approved && v.Comment == m.Comment && value.Equal(v.Data, m.Data) {
			return nil
		}
		if v.By == m.By {
			return fmt.Errorf("%w: %q on thread %d at node %q", state.ErrAlreadyVoted, m.By, t.ID, string(t.Node))
		}
		if v.Approved == m.Approved {
			same++
		}
	}
	if len(t.Votes) >= limits.MaxVotes {
		return &workflow.LimitError{Limit: "votes", Max: limits.MaxVotes}
	}
	if err := p.refuseValue(m.Data); err != nil {
		return err
	}
	p.decide(decision.AddVote{ID: m.ID, Token: t.ID, Vote: state.Vote{By: m.By, Approved: m.Approved, Comment: m.Comment, Data: m.Data, At: p.now}})
	spec := p.s.Graph.Node(t.Node).Approval
	quorum := spec.Quorum
	if !m.Approved {
		quorum = spec.RejectQuorum
	}
	if same >= quorum {
		p.decideApproval(t.ID, m.Approved, "votes")
	}
	return nil
}

// decideApproval completes an approval. A rejection is a result like any other. The output
// has all votes, also those on the other side. If the node's output mapping fails, the
// approval stays decided and its node fails.
func (p *planner) decideApproval(id workflow.TokenID, approved bool, cause string) {
	votes := decision.VoteValues(p.s.Token(id).Votes)
	p.decide(decision.DecideApproval{Token: id, Approved: approved, Cause: cause})
	p.completeNode(p.s.Token(id), completion{output: map[string]any{"approved": approved, "cause": cause, "votes": votes}})
}

// approvalTimedOut ends an approval that nobody has decided in time. The votes that were
// given make no difference to that; an output has them all the same.
func (p *planner) approvalTimedOut(t *state.Token, n *compiled.Node) {
	switch n.Approval.OnTimeout {
	case workflow.ApprovalApprove:
		p.decideApproval(t.ID, true, "timeout")
	case workflow.ApprovalReject:
		p.decideApproval(t.ID, false, "timeout")
	case workflow.ApprovalFail:
		p.failAttempt(t, &workflow.Failure{Code: workflow.CodeApprovalTimeout, Message: p.tellLimit("not decided", n.Timeout)}, true)
	}
}
