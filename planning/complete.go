package planning

import (
	"slices"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// An attemptKey names one attempt of one token under one life of an engine. A result counts
// only if all three are those of the token as it stands: the same attempt may have been sent
// by an engine whose commit was lost.
type attemptKey struct {
	token   workflow.TokenID
	attempt int
	epoch   state.Epoch
}

// runningAttempt returns the token whose attempt k is with the executor, or nil. Every
// message of an executor goes through it, so that a late, foreign or repeated one changes
// nothing.
func (p *planner) runningAttempt(k attemptKey) *state.Token {
	t := p.s.Token(k.token)
	if t == nil || t.Status != workflow.Dispatched || t.Attempt != k.attempt || t.Epoch != k.epoch {
		return nil
	}
	return t
}

// repeatedOrStale answers a result whose attempt does not run: nil if this very
// result was taken before, state.ErrStale otherwise.
//
// Delivery is at least once: an executor that did not hear the answer sends its result again
// and must be told that it is done, or it would go on for ever. But one whose attempt timed
// out, was skipped or cancelled must learn that its result did not count. The fate of the
// token tells them apart:
//
//   - it has completed or waits at a join, and this is a completion: taken before;
//   - it was cancelled, or timed out, at a join where it waited: its node had completed
//     before that;
//   - it has failed, or waits for another attempt, and this is a failure: taken before,
//     unless it was the engine's clock that ended the attempt;
//   - it has failed by what its completion led to, such as an output mapping: the completion
//     was taken.
func repeatedOrStale(s *state.State, k attemptKey, completes bool) error {
	t := s.Token(k.token)
	if t == nil || t.Attempt != k.attempt || t.Epoch != k.epoch || t.Status == workflow.Dispatched {
		return state.ErrStale
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
		if !completes || failedAfterCompletion(t) {
			return nil
		}
	case workflow.Retrying, workflow.WaitingForOperator, workflow.WaitingForBudget:
		if t.Failure != nil && !isTimeout(t.Failure) && (!completes || failedAfterCompletion(t)) {
			return nil
		}
	default:
	}
	return state.ErrStale
}

// isTimeout reports whether a failure was found by the engine's clock, not told by
// the executor.
func isTimeout(f *workflow.Failure) bool {
	return f.Code == workflow.CodeTimeout || f.Code == workflow.CodeHeartbeatTimeout
}

// failedAfterCompletion reports whether the failure of a token is that of a completed attempt: of its
// result, its output mapping or its routing. Nothing else of a token that has failed says
// that its attempt had completed before.
func failedAfterCompletion(t *state.Token) bool {
	if t.Remembered().Short { // its next attempt had no room
		return false
	}
	switch t.Failure.Code {
	case workflow.CodeExpression, workflow.CodeSchema, workflow.CodeLimit, workflow.CodeUnmatched, workflow.CodeResultTooLarge:
		return true
	}
	return false
}

// taskCompleted completes the node of a task, unless the message is late or repeated. A result that is larger or
// deeper than the limits allow, or brings too many artifacts, fails the attempt instead.
//
// The measure comes with the message where the engine has taken it already, since a result is
// up to a megabyte; a journal has none.
func (p *planner) taskCompleted(m state.TaskCompleted) error {
	k := attemptKey{m.Token, m.Attempt, m.Epoch}
	t := p.runningAttempt(k)
	if t == nil {
		return repeatedOrStale(p.s, k, true)
	}
	p.s.CountReport(m)
	measure := m.Measure
	if measure == (value.Measure{}) {
		measure = value.MeasureOf(m.Output)
	}
	if f := p.unfitResult(measure); f != nil {
		p.failAttempt(t, f, false)
		return nil
	}
	if n := len(p.s.Artifacts) + len(m.Artifacts); n > limits.MaxArtifacts && len(m.Artifacts) > 0 {
		f := limitFailure("artifacts", limits.MaxArtifacts, "artifacts in one run")
		p.failAttempt(t, &f, false)
		return nil
	}
	p.completeNode(t, completion{output: m.Output, metadata: m.Metadata, artifacts: m.Artifacts})
	return nil
}

// taskFailed ends an attempt that its executor gives up: it is retried, parked or raised.
func (p *planner) taskFailed(m state.TaskFailed) error {
	k := attemptKey{m.Token, m.Attempt, m.Epoch}
	t := p.runningAttempt(k)
	if t == nil {
		return repeatedOrStale(p.s, k, false)
	}
	p.s.CountReport(m)
	f := m.Failure
	// The next attempt may go on from what this one has said last, so that it is kept before
	// anything else.
	p.keepDetails(t, m.Details)
	t = p.s.Token(t.ID)
	p.retryOrRaise(t, &f, m.RetryAfter, false)
	return nil
}

// taskHeartbeat notes that an attempt is alive. An attempt that does not run any more is told
// so, which is how its executor learns that it may stop.
func (p *planner) taskHeartbeat(m state.Heartbeat) error {
	t := p.runningAttempt(attemptKey{m.Token, m.Attempt, m.Epoch})
	if t == nil {
		return state.ErrStale
	}
	p.keepDetails(t, m.Details)
	// An attempt whose node has no heartbeat any more, by a patch, is watched until it beats once more.
	t = p.s.Token(t.ID)
	if n := p.s.Graph.Node(t.Node); n.Heartbeat > 0 || !t.Beat.IsZero() && p.planLike() >= 6 {
		p.decide(decision.ExtendTask{Token: t.ID, Beat: timeout.Deadline(p.now, n.Heartbeat)})
	}
	return nil
}

// keepDetails keeps what an attempt says of how far it is, if it says something. It replaces
// the token, so that callers which go on with it look it up again.
func (p *planner) keepDetails(t *state.Token, details any) {
	if details != nil {
		p.decide(decision.KeepDetails{Token: t.ID, Details: details})
	}
}

// A completion is what a node completes with. The output of an approval, a wait or a gateway
// is made by the planner; that of a task comes from its executor or an operator, and that of
// a child from its run.
type completion struct {
	output    any
	metadata  map[string]any
	skipped   bool // by an operator
	artifacts []workflow.Artifact
}

// completeNode ends a node as completed: output mapping, then routing, as one act.
// If anything in it fails, nothing of it is written and the node has failed.
//
// The failure has a code that is not retried where an expression or a schema is at fault. The
// token is still live then, and its error transitions may catch it.
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
//
// It returns a branchFailure if the value that the token brings to a join could not be
// evaluated, which ends the branch whatever the node's error transitions say. Skip and the
// results given to a fork call it without completeNode, because their caller is refused where
// a task would fail.
func (p *planner) leaveNode(t *state.Token, n *compiled.Node, c completion) (*branchFailure, *workflow.Failure) {
	q := p
	if len(n.Output) > 0 || len(n.Cancels) > 0 {
		q = p.forkPlanner()
	}
	// The output mapping sees the error that the token came by; the transitions that leave do
	// not.
	v := vars{p: q, scope: t.Scope, token: t, result: c.output, bound: true, caught: t.Caught}
	f := q.writeOutput(n.Output, v)
	if f != nil {
		return nil, f
	}
	v.caught = nil
	// The tokens that the node cancels end before routing, so that conditions which ask for
	// active see them gone.
	if len(n.Cancels) > 0 {
		q.cancelTokens(decision.CancelTokens{Scope: t.Scope, Nodes: n.Cancels, Except: t.ID})
	}
	matches, branch, f := q.chooseTransitions(n, v)
	// The notes are kept even if the node fails now: they say why.
	if q != p {
		for _, note := range q.trace { // within the bounds of the message
			p.keepNote(note)
		}
	}
	if branch != nil || f != nil {
		return branch, f
	}
	if p.ends != nil {
		*p.ends = append(*p.ends, state.KeptEnd{Token: t.ID, Output: c.output, Metadata: c.metadata, Artifacts: c.artifacts})
	}
	if q != p {
		// Nothing can fail from here on but a limit of the run. The writes of the fork
		// become the planner's own, and so do the branches and tokens that its cancelling
		// has touched.
		p.adoptFork(q)
		p.touched, p.entries = append(p.touched, q.touched...), append(p.entries, q.entries...)
		v.p = p
	}
	if len(c.artifacts) > 0 {
		p.stageArtifacts(t, c.artifacts)
	}
	// The token ends, or is the one that waits at the join if it takes a synchronizing
	// transition.
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

// chooseTransitions returns the transitions that a completed node takes. That nothing matches
// is the end of the token, unless the node says that it is a failure.
func (p *planner) chooseTransitions(n *compiled.Node, v vars) ([]match, *branchFailure, *workflow.Failure) {
	matched, f := p.matchTiers(n.Success, v, nil)
	if f != nil {
		return nil, nil, f
	}
	if len(matched) == 0 && n.Unmatched == workflow.UnmatchedFail {
		return nil, nil, &workflow.Failure{Code: workflow.CodeUnmatched, Permanent: true, Message: "no transition matches"}
	}
	return p.evalMatches(matched, v)
}

// stageArtifacts adds what a task hands over to the artifacts of the run. They get the node
// and the token by which they are told apart in the outcome. A copy is made because the
// message belongs to the caller.
func (p *planner) stageArtifacts(t *state.Token, as []workflow.Artifact) {
	d := decision.StageArtifacts{Token: t.ID, Artifacts: slices.Clone(as)}
	for i := range d.Artifacts {
		d.Artifacts[i].Node, d.Artifacts[i].Token = t.Node, t.ID
	}
	p.decide(d)
}
