package decision

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// CreateToken puts a new token on a node.
//
// It makes the first token, the tokens that take plain transitions, that continue after a
// join, and that carry an arrival or a group's failure. Tokens of a fan-out come with
// CreateBranches or AddBranch.
type CreateToken struct {
	Token state.Token `json:"token"`
}

// String implements fmt.Stringer.
func (d CreateToken) String() string {
	l := newLine("create-token", d.Token.ID).addField("node", string(d.Token.Node)).addScope(d.Token.Scope).
		addField("counts", countsText(d.Token.Counts))
	if f := d.Token.Caught; f != nil {
		l.addField("caught", f.Code)
	}
	return l.String()
}

// evolveState insists on the next id: ids are dense and in the order of creation, so that the
// same messages give the same ids, and a replay that goes astray is found here.
func (d CreateToken) evolveState(s *state.State) {
	if d.Token.ID != s.NextToken {
		panic(fmt.Sprintf("decision: %v created out of order, want %v", d.Token.ID, s.NextToken))
	}
	s.PutToken(&d.Token)
}

func (d CreateToken) toldEvents(s *state.State) []Event { return EventsOf(d.appendTold(nil, s)) }

func (d CreateToken) appendTold(told []Told, _ *state.State) []Told {
	return pace.Push(told, Told{
		event:  Event{Type: workflow.EventTokenCreated, Token: d.Token.ID, Node: d.Token.Node, Group: d.Token.Scope.Group},
		branch: d.Token.Scope.Branch, later: scopeData{},
	})
}

func (CreateToken) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// CompleteToken ends a token whose node has completed. Output is kept if some expression asks
// for it. A token that waits at a join of its group completes its node with AwaitSiblings
// instead, and ends when the group does.
type CompleteToken struct {
	Token    workflow.TokenID `json:"token"`
	Output   any              `json:"output,omitzero"`
	Metadata map[string]any   `json:"metadata,omitzero"`
	Skipped  bool             `json:"skipped,omitzero"` // by an operator: the attempt's key is stale
}

// String implements fmt.Stringer.
func (d CompleteToken) String() string {
	return newLine("complete-token", d.Token).addFlag("skipped", d.Skipped).addJSON("output", d.Output).String()
}

// evolveState takes the epoch from a token that was skipped. It is part of the key of its
// attempt, so that a result which still comes for that attempt fits no more, and is stale.
func (d CompleteToken) evolveState(s *state.State) {
	t := *liveToken(s, d.Token)
	if d.Skipped {
		t.Epoch = 0
	}
	endToken(s, &t, workflow.Completed, d.Output, nil)
}

func (d CompleteToken) toldEvents(s *state.State) []Event { return EventsOf(d.appendTold(nil, s)) }

func (d CompleteToken) appendTold(told []Told, s *state.State) []Told {
	told = appendCompleted(told, s, d.Token, d.Metadata)
	return pace.Push(told, tellOf(s, workflow.EventTokenCompleted, d.Token, noData{}))
}

// withdrawnTokens names the token itself if its task is out: after a result the attempt is
// over, which a pool of workers must know; after a skip it has to stop.
func (d CompleteToken) withdrawnTokens(s *state.State) []workflow.TokenID {
	return runningTokens(s, d.Token)
}

// FailToken ends a token whose node has failed.
//
// The decision that follows says what else the failure ends, the branch or the run; if an
// error transition has caught it, tokens that take the transition follow instead.
type FailToken struct {
	Token   workflow.TokenID `json:"token"`
	Failure workflow.Failure `json:"failure"`
}

// String implements fmt.Stringer.
func (d FailToken) String() string {
	return newLine("fail-token", d.Token).addFailure(&d.Failure).String()
}

func (d FailToken) evolveState(s *state.State) {
	endToken(s, liveToken(s, d.Token), workflow.Failed, nil, &d.Failure)
}

func (d FailToken) toldEvents(s *state.State) []Event {
	return failedEvents(s, d.Token, workflow.EventTokenFailed, &d.Failure)
}

func (d FailToken) withdrawnTokens(s *state.State) []workflow.TokenID {
	return runningTokens(s, d.Token)
}

// ExpireToken ends a token whose last attempt timed out. It does what FailToken does but for
// the status, by which a time-out is told from other failures.
type ExpireToken struct {
	Token   workflow.TokenID `json:"token"`
	Failure workflow.Failure `json:"failure"`
}

// String implements fmt.Stringer.
func (d ExpireToken) String() string {
	return newLine("expire-token", d.Token).addFailure(&d.Failure).String()
}

func (d ExpireToken) evolveState(s *state.State) {
	endToken(s, liveToken(s, d.Token), workflow.TimedOut, nil, &d.Failure)
}

func (d ExpireToken) toldEvents(s *state.State) []Event {
	return failedEvents(s, d.Token, workflow.EventTokenTimedOut, &d.Failure)
}

func (d ExpireToken) withdrawnTokens(s *state.State) []workflow.TokenID {
	return runningTokens(s, d.Token)
}

// CancelToken ends a token that is no longer wanted.
//
// The planner does not make it: CancelTokens and the ends of branches, groups and runs cancel
// many tokens at once. It is among the variants because a journal may hold it.
type CancelToken struct {
	Token  workflow.TokenID `json:"token"`
	Reason string           `json:"reason,omitzero"`
}

// String implements fmt.Stringer.
func (d CancelToken) String() string {
	return newLine("cancel-token", d.Token).addField("reason", d.Reason).String()
}

func (d CancelToken) evolveState(s *state.State) {
	endToken(s, liveToken(s, d.Token), workflow.Cancelled, nil, nil)
}

func (d CancelToken) toldEvents(s *state.State) []Event {
	return []Event{tokenEvent(s, workflow.EventTokenCancelled, d.Token, map[string]any{"reason": d.Reason})}
}

func (d CancelToken) withdrawnTokens(s *state.State) []workflow.TokenID {
	return runningTokens(s, d.Token)
}

// CancelTokens ends the live tokens at some nodes, except one, in a branch and in
// the groups nested in it. A token that waits at the join of its group has left the
// node that it completed. With AtJoins it stands at the node that the join leads to;
// without, as in records of planners before version 3, it stands nowhere, and stays.
//
// It is what a node's cancels do, in the scope of the token that completes there and except
// for that one, and what CancelNodes asks for, in the zero Scope, which is the whole run.
type CancelTokens struct {
	Scope   workflow.Scope    `json:"scope,omitzero"`
	Nodes   []workflow.NodeID `json:"nodes"`
	Except  workflow.TokenID  `json:"except,omitzero"`
	AtJoins bool              `json:"atJoins,omitzero"` // some of the tokens wait for their siblings
}

// String implements fmt.Stringer.
func (d CancelTokens) String() string {
	l := newLine("cancel-tokens").addScope(d.Scope).addField("nodes", joinNames(d.Nodes))
	if d.Except != 0 {
		l.addField("except", d.Except.String())
	}
	return l.addFlag("at-joins", d.AtJoins).String()
}

// evolveState leaves alone what is kept of the end of a node that a token had completed. A
// branch that had arrived has lost all its tokens at the join by that, and is running again
// until EndBranch, as one whose last token was cancelled elsewhere: no group fires with it.
func (d CancelTokens) evolveState(s *state.State) {
	for _, id := range TokensCancelled(s, d) {
		t := s.Token(id)
		if t.Status != workflow.WaitingForSiblings {
			endToken(s, t, workflow.Cancelled, nil, nil)
			continue
		}
		putEnded(s, t, workflow.Cancelled, nil)
		if b := s.Branch(t.Scope); b.Status == state.BranchArrived && b.Waiting == 0 {
			g := *s.Group(t.Scope.Group)
			g.Arrived--
			s.PutGroup(&g)
			s.PutBranchStatus(t.Scope, state.BranchRunning, nil)
		}
	}
}

// toldEvents returns one event, however many tokens end, and none if none does. It names the
// first hundred of them, so that an event stays small.
func (d CancelTokens) toldEvents(s *state.State) []Event {
	const most = 100 // tokens that it names
	ids := TokensCancelled(s, d)
	if len(ids) == 0 {
		return nil
	}
	tokens := make([]any, 0, min(len(ids), most))
	for _, id := range ids[:min(len(ids), most)] {
		tokens = append(tokens, int64(id))
	}
	nodes := make([]any, len(d.Nodes))
	for i, n := range d.Nodes {
		nodes[i] = string(n)
	}
	return []Event{{Type: workflow.EventTokenCancelled, Data: map[string]any{"nodes": nodes, "count": int64(len(ids)), "tokens": tokens}}}
}

func (d CancelTokens) withdrawnTokens(s *state.State) []workflow.TokenID {
	return runningTokens(s, TokensCancelled(s, d)...)
}

// HoldToken keeps a token from going on while the run is paused. Only what would begin a task
// or a child, or take a lock, is held; a pause does not keep tokens from passing other nodes.
// ResumeRun is followed by the beginnings of the held ones, in the order in which they were
// held.
type HoldToken struct {
	Token  workflow.TokenID `json:"token"`
	Result any              `json:"result,omitzero"` // of the node that was left, or the task's input
}

// String implements fmt.Stringer.
func (d HoldToken) String() string { return newLine("hold-token", d.Token).String() }

// evolveState keeps in Input what the token needs to begin later: a first attempt still has
// to evaluate its input from the result, a further one has it already. It has a place in line
// and no deadline.
func (d HoldToken) evolveState(s *state.State) {
	t := *liveToken(s, d.Token)
	t.Status, t.Input, t.Due, t.Beat = workflow.Pending, d.Result, never, never
	t.Held, t.Order = true, s.NextPlace()
	s.PutToken(&t)
}

func (d HoldToken) toldEvents(s *state.State) []Event {
	return []Event{waitingFor(s, d.Token, "resume", nil)}
}

func (HoldToken) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// TokensCancelled returns the tokens that d ends: those that stand at one of its nodes. The
// planner asks the same before it decides, for the branches that it must look at afterwards.
func TokensCancelled(s *state.State, d CancelTokens) []workflow.TokenID {
	return slices.DeleteFunc(s.TokensInScope(d.Scope), func(id workflow.TokenID) bool {
		t := s.Token(id)
		return id == d.Except || t.Status == workflow.WaitingForSiblings && !d.AtJoins || !slices.Contains(d.Nodes, s.NodeOf(t))
	})
}

// never is the due time of a token or group that time alone does not change. It is the zero
// time, as timeout.Deadline returns it for what has no bound.
var never time.Time

// liveToken returns a token that a decision may change. A terminal status never changes, so
// that a decision about a token which has ended is a planner's mistake: it panics, and the
// run is suspended with nothing of the plan committed.
func liveToken(s *state.State, id workflow.TokenID) *state.Token {
	t := s.Token(id)
	if t == nil || !t.Live() {
		panic(fmt.Sprintf("decision: %v is not live", id))
	}
	return t
}

// endToken makes a token terminal. It keeps only what may be asked of a token
// that has ended.
//
// Attempt and Epoch stay, so that a result which comes once more is known as a repetition and
// any other as stale; Via stays, since a token that was cancelled at a join had completed its
// node. All else is dropped, because tokens that have ended are kept as long as the run.
func endToken(s *state.State, t *state.Token, status workflow.TokenStatus, output any, f *workflow.Failure) {
	putEnded(s, t, status, f)
	noteEnd(s, t, status, output, f)
}

// putEnded is endToken for a token whose node ended before: nothing is noted of that.
func putEnded(s *state.State, t *state.Token, status workflow.TokenStatus, f *workflow.Failure) {
	s.PutToken(&state.Token{
		ID: t.ID, Node: t.Node, Status: status, Parent: t.Parent, Scope: t.Scope,
		Attempt: t.Attempt, Epoch: t.Epoch, Failure: f, Via: t.Via,
	})
}

// noteEnd keeps how a token's node ended, if some expression asks for it. The end is written
// into the token's own scope: what ends in a branch is seen there and in what is nested in
// it, and vanishes with the branch. The latest end of a node replaces the one before.
func noteEnd(s *state.State, t *state.Token, status workflow.TokenStatus, output any, f *workflow.Failure) {
	n := s.Graph.Node(t.Node)
	if n == nil || !n.KeepsEnd {
		return
	}
	v := map[string]any{"status": status.String()}
	if n.KeepsOutput && status == workflow.Completed {
		v["output"] = output
	}
	if f != nil {
		v["error"] = FailureValue(f)
	}
	s.SetData(t.Scope, []string{state.SectionNodes, string(t.Node)}, v)
}

// completeWaiting ends a token that waits at a join. Its node completed when the
// token took its transition to the join, so that only the token is left to end.
func completeWaiting(s *state.State, t *state.Token) {
	s.PutToken(&state.Token{
		ID: t.ID, Node: t.Node, Status: workflow.Completed, Parent: t.Parent, Scope: t.Scope,
		Attempt: t.Attempt, Epoch: t.Epoch,
	})
}

// leaveNode drops what a token holds only while it is at its node. The lock is among it, so
// that a token which waits at a join holds up nobody who waits for the lock.
func leaveNode(t *state.Token) {
	t.Due, t.Beat, t.Input, t.Failure = never, never, nil, nil
	t.Holds, t.Held, t.Votes, t.Memory = "", false, nil, nil
}

// cancelTokens ends tokens as cancelled. It is for what ends with something larger, whose
// decision tells one event for all of them.
func cancelTokens(s *state.State, ids iter.Seq[workflow.TokenID]) {
	for id := range ids {
		endToken(s, s.Token(id), workflow.Cancelled, nil, nil)
	}
}

// Traverse returns the loop counts of a token that takes t: one more for t if
// it loops, none for the loops nested in it.
//
// The counts that are given are not modified, since tokens share them. If an outer loop holds
// an inner one that has been taken twice, {outer: 1, inner: 2} becomes {outer: 2}: the inner
// loop may be taken as often again in the next round.
func Traverse(g *compiled.Graph, counts state.Counts, t *compiled.Transition) state.Counts {
	if t.Loop == nil {
		return counts
	}
	out := make(state.Counts, len(counts)+1)
	for id, n := range counts {
		if inner := g.Transition(id); inner == nil || !t.Resets(inner) {
			out[id] = n
		}
	}
	out[t.ID]++
	return out
}
