package planning

import (
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// beginWait lets a token wait for a timer, an event, or whichever of several comes
// first: an event that is kept, and then a timer that is past, end it at once.
func (p *planner) beginWait(t *state.Token, n *workflow.GraphNode, v vars) {
	names := n.Events()
	if p.takeKept(t, n, names, v) {
		return
	}
	due, past, f := p.waitDue(n, v)
	switch {
	case f != nil:
		p.failAttempt(t, f, false)
		return
	case past:
		p.completeNode(t, completion{output: timerOutput()})
		return
	}
	limit := timeout.Deadline(p.now, n.Timeout)
	if len(names) == 0 {
		d := decision.AwaitTimer{Token: t.ID, Attempt: t.Attempt + 1, Due: due, Limit: limit}
		if n.AsksResult && n.Node.Retry != nil {
			d.Result = v.result
		}
		p.decide(d)
		return
	}
	d := decision.AwaitEvent{Token: t.ID, Attempt: t.Attempt + 1, Names: names, Due: due, Limit: limit}
	if n.AsksResult {
		d.Result = v.result
	}
	p.decide(d)
}

// waitDue returns the earliest timer of a wait node, zero if it has none, and
// whether it is past.
func (p *planner) waitDue(n *workflow.GraphNode, v vars) (due time.Time, past bool, f *workflow.Failure) {
	for i := range n.Waits {
		w := &n.Waits[i]
		at := timeout.Deadline(p.now, w.For)
		if w.Until != nil {
			if f := p.overBudget(); f != nil {
				return due, false, f
			}
			x, err := w.Until.EvalTime(v)
			if err != nil {
				return due, false, evalFailure(w.Until, err)
			}
			at = timeout.Instant(x)
			past = past || !at.After(p.now)
		}
		due = timeout.Earliest(due, at)
	}
	return due, past, nil
}

// timerOutput is the output of a wait that a timer ended.
func timerOutput() map[string]any { return map[string]any{"cause": "timer"} }

// eventOutput is the output of a wait that an event ended.
func eventOutput(name string, payload any) map[string]any {
	return map[string]any{"cause": "event", "event": name, "payload": payload}
}

// takeKept completes a wait with the oldest kept event, of whichever name, that
// matches. Those whose time is up are lost.
func (p *planner) takeKept(t *state.Token, n *workflow.GraphNode, names []string, v vars) bool {
	for k := range p.s.KeptOf(names...) {
		switch {
		case k.Expired(p.now):
			p.decide(decision.LoseSignal{Seq: k.Seq, Name: k.Name})
		case p.wantsEvent(t, n, k.Name, k.Payload, v):
			p.decide(decision.TakeSignal{Token: t.ID, Seq: k.Seq, Name: k.Name})
			p.completeNode(p.s.Token(t.ID), completion{output: eventOutput(k.Name, k.Payload)})
			return true
		}
	}
	return false
}

// wantsEvent reports whether an event matches what a token waits for. An error in
// match is no match; it is told.
func (p *planner) wantsEvent(t *state.Token, n *workflow.GraphNode, name string, payload any, v vars) bool {
	v.payload, v.signalled = payload, true
	for i := range n.Waits {
		w := &n.Waits[i]
		switch {
		case w.Event != name:
			continue
		case p.overBudget() != nil:
			return false
		case w.Match == nil:
			return true
		}
		ok, err := w.Match.EvalBool(v)
		if err != nil {
			p.decide(decision.RejectSignal{Token: t.ID, Name: name, Failure: *evalFailure(w.Match, err)})
			continue
		}
		if ok {
			return true
		}
	}
	return false
}

// deliverSignal gives an event to the token that has waited for it longest, or keeps
// it. An id counts once.
func (p *planner) deliverSignal(m state.Signal) error {
	if err := p.refuseValue(m.Payload); err != nil {
		return err
	}
	if m.ID != "" && p.s.KnowsSignal(m.ID) {
		return nil
	}
	d := decision.KeepSignal{Seq: p.s.NextSignal, Name: m.Name, ID: m.ID, Done: true}
	for t := range p.s.Line(state.WaitKey{Kind: state.LineEvent, Name: m.Name}) {
		n := p.s.Graph.Node(t.Node)
		v := vars{p: p, scope: t.Scope, token: t, result: t.Input, bound: true, caught: t.Caught}
		if !p.wantsEvent(t, n, m.Name, m.Payload, v) {
			continue
		}
		p.decide(d)
		p.decide(decision.TakeSignal{Token: t.ID, Seq: d.Seq, Name: m.Name})
		p.completeNode(p.s.Token(t.ID), completion{output: eventOutput(m.Name, m.Payload)})
		return nil
	}
	if m.Transient {
		p.decide(d)
		p.decide(decision.LoseSignal{Seq: d.Seq, Name: m.Name})
		return nil
	}
	if p.s.Kept() >= workflow.MaxSignals {
		p.loseExpired()
	}
	if p.s.Kept() >= workflow.MaxSignals {
		return &workflow.LimitError{Limit: "signals", Max: workflow.MaxSignals}
	}
	d.Payload, d.Done = m.Payload, false
	d.Due = timeout.Deadline(p.now, m.TTL)
	p.decide(d)
	return nil
}

// loseExpired makes room: signals whose time is up are kept only until somebody
// looks.
func (p *planner) loseExpired() {
	for _, k := range p.s.Expired(p.now) {
		p.decide(decision.LoseSignal{Seq: k.Seq, Name: k.Name})
	}
}

// requestApproval lets a token wait for people.
func (p *planner) requestApproval(t *state.Token, n *workflow.GraphNode) {
	p.decide(decision.RequestApproval{
		Token: t.ID, Attempt: t.Attempt + 1, Message: n.Approval.Message, Due: timeout.Deadline(p.now, n.Timeout),
	})
}

// addVote adds a vote to an approval, and decides it if that makes a quorum.
func (p *planner) addVote(m state.Ballot) error {
	t, err := p.tokenAddressed(m.Token, m.Node, workflow.WaitingForApproval)
	if err != nil {
		return err
	}
	same := 1
	for _, v := range t.Votes {
		if v.By == m.By {
			return workflow.ErrAlreadyVoted
		}
		if v.Approved == m.Approved {
			same++
		}
	}
	if len(t.Votes) >= workflow.MaxVotes {
		return &workflow.LimitError{Limit: "votes", Max: workflow.MaxVotes}
	}
	if err := p.refuseValue(m.Data); err != nil {
		return err
	}
	p.decide(decision.AddVote{Token: t.ID, Vote: state.Vote{By: m.By, Approved: m.Approved, Comment: m.Comment, Data: m.Data, At: p.now}})
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

// decideApproval completes an approval. A rejection is a result like any other.
func (p *planner) decideApproval(id workflow.TokenID, approved bool, cause string) {
	votes := decision.VoteValues(p.s.Token(id).Votes)
	p.decide(decision.DecideApproval{Token: id, Approved: approved, Cause: cause})
	p.completeNode(p.s.Token(id), completion{output: map[string]any{"approved": approved, "cause": cause, "votes": votes}})
}

// approvalTimedOut ends an approval that nobody has decided in time.
func (p *planner) approvalTimedOut(t *state.Token, n *workflow.GraphNode) {
	switch n.Approval.OnTimeout {
	case workflow.ApprovalApprove:
		p.decideApproval(t.ID, true, "timeout")
	case workflow.ApprovalReject:
		p.decideApproval(t.ID, false, "timeout")
	case workflow.ApprovalFail:
		p.failAttempt(t, &workflow.Failure{Code: workflow.CodeApprovalTimeout, Message: "not decided within " + n.Timeout.String()}, true)
	}
}
