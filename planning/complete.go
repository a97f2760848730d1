package planning

import (
	"slices"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// An attemptKey names one attempt of one token under one life of an engine.
type attemptKey struct {
	token   workflow.TokenID
	attempt int
	epoch   workflow.Epoch
}

// runningAttempt returns the token whose attempt k is with the executor, or nil.
func (p *planner) runningAttempt(k attemptKey) *state.Token {
	t := p.s.Token(k.token)
	if t == nil || t.Status != workflow.Dispatched || t.Attempt != k.attempt || t.Epoch != k.epoch {
		return nil
	}
	return t
}

// repeatedOrStale answers a result whose attempt does not run: nil if this very
// result was taken before, workflow.ErrStale otherwise.
func repeatedOrStale(s *state.State, k attemptKey, completes bool) error {
	t := s.Token(k.token)
	if t == nil || t.Attempt != k.attempt || t.Epoch != k.epoch || t.Status == workflow.Dispatched {
		return workflow.ErrStale
	}
	switch t.Status {
	case workflow.Completed, workflow.WaitingForSiblings:
		if completes {
			return nil
		}
	case workflow.Cancelled, workflow.TimedOut:
		if completes && t.Via != "" { // it had completed, and waited at a join
			return nil
		}
	case workflow.Failed:
		if !completes || failedAfterCompletion(t.Failure) {
			return nil
		}
	case workflow.Retrying, workflow.WaitingForOperator:
		if t.Failure != nil && !isTimeout(t.Failure) && (!completes || failedAfterCompletion(t.Failure)) {
			return nil
		}
	default:
	}
	return workflow.ErrStale
}

// isTimeout reports whether a failure was found by the engine's clock, not told by
// the executor.
func isTimeout(f *workflow.Failure) bool {
	return f.Code == workflow.CodeTimeout || f.Code == workflow.CodeHeartbeatTimeout
}

// failedAfterCompletion reports whether a failure is that of a completed attempt: of its
// result, its output mapping or its routing.
func failedAfterCompletion(f *workflow.Failure) bool {
	switch f.Code {
	case workflow.CodeExpression, workflow.CodeSchema, workflow.CodeLimit, workflow.CodeUnmatched, workflow.CodeResultTooLarge:
		return true
	}
	return false
}

// taskCompleted completes the node of a task, unless the message is late or repeated. A result that is larger or
// deeper than the limits allow, or brings too many artifacts, fails the attempt instead.
func (p *planner) taskCompleted(m state.TaskCompleted) error {
	k := attemptKey{m.Token, m.Attempt, m.Epoch}
	t := p.runningAttempt(k)
	if t == nil {
		return repeatedOrStale(p.s, k, true)
	}
	measure := m.Measure
	if measure == (value.Measure{}) {
		measure = value.MeasureOf(m.Output)
	}
	if f := p.unfitResult(measure); f != nil {
		p.failAttempt(t, f, false)
		return nil
	}
	if n := len(p.s.Artifacts) + len(m.Artifacts); n > workflow.MaxArtifacts && len(m.Artifacts) > 0 {
		f := limitFailure("artifacts", workflow.MaxArtifacts, "artifacts in one run")
		p.failAttempt(t, &f, false)
		return nil
	}
	p.completeNode(t, completion{output: m.Output, metadata: m.Metadata, artifacts: m.Artifacts})
	return nil
}

func (p *planner) taskFailed(m state.TaskFailed) error {
	k := attemptKey{m.Token, m.Attempt, m.Epoch}
	t := p.runningAttempt(k)
	if t == nil {
		return repeatedOrStale(p.s, k, false)
	}
	f := m.Failure
	p.keepDetails(t, m.Details)
	t = p.s.Token(t.ID)
	p.retryOrRaise(t, &f, m.RetryAfter, false)
	return nil
}

func (p *planner) taskHeartbeat(m state.Heartbeat) error {
	t := p.runningAttempt(attemptKey{m.Token, m.Attempt, m.Epoch})
	if t == nil {
		return workflow.ErrStale
	}
	p.keepDetails(t, m.Details)
	if n := p.s.Graph.Node(t.Node); n.Heartbeat > 0 {
		p.decide(decision.ExtendTask{Token: t.ID, Beat: timeout.Deadline(p.now, n.Heartbeat)})
	}
	return nil
}

// keepDetails keeps what an attempt says of how far it is, if it says something.
func (p *planner) keepDetails(t *state.Token, details any) {
	if details != nil {
		p.decide(decision.KeepDetails{Token: t.ID, Details: details})
	}
}

// A completion is what a node completes with.
type completion struct {
	output    any
	metadata  map[string]any
	skipped   bool // by an operator
	artifacts []workflow.Artifact
}

// completeNode ends a node as completed: output mapping, then routing, as one act.
// If anything in it fails, nothing of it is written and the node has failed.
func (p *planner) completeNode(t *state.Token, c completion) {
	n := p.s.Graph.Node(t.Node)
	if f := p.schemaFailure("the result of the node", n.Schema, c.output); f != nil {
		p.failAttempt(t, f, false)
		return
	}
	switch branch, f := p.leaveNode(t, n, c); {
	case branch != nil:
		p.failArrival(t, branch)
	case f != nil:
		p.failAttempt(t, f, false)
	}
}

// leaveNode writes a node's output mapping and follows its transitions. It
// evaluates everything that can fail first, on a fork of the planner if that
// writes, and makes the decisions only when nothing has failed.
func (p *planner) leaveNode(t *state.Token, n *workflow.GraphNode, c completion) (*branchFailure, *workflow.Failure) {
	q := p
	if len(n.Output) > 0 || len(n.Cancels) > 0 {
		q = p.forkPlanner()
	}
	v := vars{p: q, scope: t.Scope, token: t, result: c.output, bound: true, caught: t.Caught}
	f := q.writeOutput(n.Output, v)
	if f != nil {
		return nil, f
	}
	v.caught = nil
	if len(n.Cancels) > 0 {
		q.cancelTokens(decision.CancelTokens{Scope: t.Scope, Nodes: n.Cancels, Except: t.ID})
	}
	matches, branch, f := q.chooseTransitions(n, v)
	if q != p {
		p.trace = append(p.trace, q.trace...)
	}
	if branch != nil || f != nil {
		return branch, f
	}
	if q != p {
		p.adoptFork(q)
		p.touched, p.entries = append(p.touched, q.touched...), append(p.entries, q.entries...)
		v.p = p
	}
	if len(c.artifacts) > 0 {
		p.stageArtifacts(t, c.artifacts)
	}
	p.followTransitions(matches, v, func(arrival *decision.AwaitSiblings) bool {
		if arrival == nil {
			p.decide(decision.CompleteToken{Token: t.ID, Output: keptOutput(n, c.output), Metadata: c.metadata, Skipped: c.skipped})
			return false
		}
		arrival.Token, arrival.Completes, arrival.Skipped = t.ID, true, c.skipped
		arrival.Output, arrival.Metadata = keptOutput(n, c.output), c.metadata
		p.arriveAtJoin(*arrival)
		return true
	})
	return nil, nil
}

// chooseTransitions returns the transitions that a completed node takes.
func (p *planner) chooseTransitions(n *workflow.GraphNode, v vars) ([]match, *branchFailure, *workflow.Failure) {
	matched, f := p.matchTiers(n.Success, v, nil)
	if f != nil {
		return nil, nil, f
	}
	if len(matched) == 0 && n.Unmatched == workflow.UnmatchedFail {
		return nil, nil, &workflow.Failure{Code: workflow.CodeUnmatched, Permanent: true, Message: "no transition matches"}
	}
	return p.evalMatches(matched, v)
}

// stageArtifacts adds what a task hands over to the artifacts of the run.
func (p *planner) stageArtifacts(t *state.Token, as []workflow.Artifact) {
	d := decision.StageArtifacts{Token: t.ID, Artifacts: slices.Clone(as)}
	for i := range d.Artifacts {
		d.Artifacts[i].Node, d.Artifacts[i].Token = t.Node, t.ID
	}
	p.decide(d)
}
