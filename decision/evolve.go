package decision

import (
	"fmt"
	"time"

	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// Evolve applies d to s. It is the meaning of a decision. It panics if d cannot
// follow from s: a broken invariant of a planner.
func Evolve(s *state.State, d Decision) {
	switch d := d.(type) {
	case CreateToken, CreateBranches, StartBranches, CompleteToken, FailToken, ExpireToken, CancelToken:
		evolveToken(s, d)
	case DispatchTask, ExtendTask, RetryTask, ParkTask, AwaitTimer, AwaitSiblings:
		evolveWait(s, d)
	case ArriveBranch, EndBranch, FailBranch, DropBranch, FireGroup, FailGroup, AbandonGroup:
		evolveGroup(s, d)
	case MergeBranches:
		write(s, d.Scope, d.Path, d.Append, d.Value)
	case SetData:
		s.SetData(d.Scope, d.Path, d.Value)
	case AppendData:
		s.AppendData(d.Scope, d.Path, d.Value)
	case ListErrors:
		write(s, d.Scope, d.Path, d.Append, d.Value)
	case StartChild, EndChild, RequestApproval, AddVote, DecideApproval, AwaitLock, TakeLock, HoldToken, AwaitJoin, FireJoin, CancelTokens:
		evolveHold(s, d)
	case AwaitEvent, KeepSignal, TakeSignal, LoseSignal, RejectSignal:
		evolveSignal(s, d)
	case AddBranch, CloseGroup, ArmGroup:
		evolveOpen(s, d)
	case StartStep, EndStep:
		evolveStep(s, d)
	case PatchRun:
		evolvePatch(s, d)
	case StageArtifacts:
		s.AddArtifacts(d.Artifacts)
	case StartRun, CompleteRun, FailRun, ExpireRun, CancelRun, SuspendRun, ResumeRun, PauseRun, DeferFailure:
		evolveRun(s, d)
	default:
		panic(fmt.Sprintf("decision: unknown %T", d))
	}
}

// misplaced panics: the switch over all variants gave d to the wrong one of
// those behind it.
func misplaced(d Decision) []Event {
	panic(fmt.Sprintf("decision: %T is dealt with elsewhere", d))
}

func write(s *state.State, sc workflow.Scope, path []string, element bool, v any) {
	if element {
		s.AppendData(sc, path, v)
		return
	}
	s.SetData(sc, path, v)
}

func evolveToken(s *state.State, d Decision) {
	switch d := d.(type) {
	case CreateToken:
		if d.Token.ID != s.NextToken {
			panic(fmt.Sprintf("decision: %v created out of order, want %v", d.Token.ID, s.NextToken))
		}
		s.PutToken(&d.Token)
	case CreateBranches:
		createBranches(s, d)
	case StartBranches:
		startBranches(s, d)
	case CompleteToken:
		t := *live(s, d.Token)
		if d.Skipped {
			t.Epoch = 0
		}
		end(s, &t, workflow.Completed, d.Output, nil)
	case FailToken:
		end(s, live(s, d.Token), workflow.Failed, nil, &d.Failure)
	case ExpireToken:
		end(s, live(s, d.Token), workflow.TimedOut, nil, &d.Failure)
	case CancelToken:
		end(s, live(s, d.Token), workflow.Cancelled, nil, nil)
	default:
		misplaced(d)
	}
}

// maxBlock is how many tokens are made at a time.
const maxBlock = 256

// createBranches makes the first tokens of a group's branches.
func createBranches(s *state.State, d CreateBranches) {
	g := d.Group
	if g.ID != s.NextGroup || (g.Total > 0 && g.First != s.NextToken) {
		panic(fmt.Sprintf("decision: %v made out of order, want %v", g.ID, s.NextGroup))
	}
	tokens := make([]*state.Token, 0, g.Total)
	var block []state.Token // from which they are taken: large memory comes in pieces
	for _, sp := range g.Spawns {
		t := s.Graph.Transition(sp.Transition)
		counts := Traverse(s.Graph, g.Counts, t)
		for range sp.Count {
			i := len(tokens)
			if len(block) == 0 {
				block = make([]state.Token, max(1, min(g.Total-i, maxBlock)))
				pace.Pause()
			}
			block[0] = state.Token{
				ID: g.First + workflow.TokenID(i), Node: t.To, Parent: g.Origin, Counts: counts,
				Scope: workflow.Scope{Group: g.ID, Branch: i}, Caught: g.Caught,
			}
			tokens, block = append(tokens, &block[0]), block[1:]
		}
	}
	s.PutBranches(&g, tokens, d.Items)
}

// Traverse returns the loop counts of a token that takes t: one more for t if
// it loops, none for the loops nested in it.
func Traverse(g *workflow.Graph, counts state.Counts, t *workflow.GraphTransition) state.Counts {
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

// live returns a token that a decision may change.
func live(s *state.State, id workflow.TokenID) *state.Token {
	t := s.Token(id)
	if t == nil || !t.Live() {
		panic(fmt.Sprintf("decision: %v is not live", id))
	}
	return t
}

// end makes a token terminal. What only a live token needs goes.
func end(s *state.State, t *state.Token, status workflow.TokenStatus, output any, f *workflow.Failure) {
	s.PutToken(&state.Token{
		ID: t.ID, Node: t.Node, Status: status, Parent: t.Parent, Scope: t.Scope,
		Attempt: t.Attempt, Epoch: t.Epoch, Failure: f, Via: t.Via,
	})
	note(s, t, status, output, f)
}

// note keeps how a token's node ended, if some expression asks for it.
func note(s *state.State, t *state.Token, status workflow.TokenStatus, output any, f *workflow.Failure) {
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
	s.SetData(t.Scope, []string{workflow.SectionNodes, string(t.Node)}, v)
}

// FailureValue returns f as expressions see it: {code, message, attempts}; nil
// for nil.
func FailureValue(f *workflow.Failure) map[string]any {
	if f == nil {
		return nil
	}
	return map[string]any{"code": f.Code, "message": f.Message, "attempts": int64(f.Attempts)}
}

// never is the instant of what time alone does not change.
var never time.Time

func evolveWait(s *state.State, d Decision) {
	switch d := d.(type) {
	case DispatchTask:
		t := *live(s, d.Token)
		t.Status, t.Attempt, t.Epoch = workflow.Dispatched, d.Attempt, d.Epoch
		t.Input, t.Due, t.Beat, t.Held = d.Input, d.Due, d.Beat, false
		s.PutToken(&t)
	case ExtendTask:
		t := *live(s, d.Token)
		t.Beat = d.Beat
		s.PutToken(&t)
	case RetryTask:
		t := *live(s, d.Token)
		t.Status, t.Due, t.Failure = workflow.Retrying, d.Due, d.Failure
		t.Base, t.Beat, t.Held = max(t.Base, d.Base), never, false
		s.PutToken(&t)
	case ParkTask:
		t := *live(s, d.Token)
		t.Status, t.Failure, t.Due, t.Beat = workflow.WaitingForOperator, &d.Failure, never, never
		t.Held, t.Order = false, s.NextPlace()
		s.PutToken(&t)
	case AwaitTimer:
		t := *live(s, d.Token)
		t.Status, t.Attempt, t.Due, t.Beat = workflow.WaitingForTimer, d.Attempt, d.Due, d.Limit
		t.Input, t.Held = d.Result, false
		s.PutToken(&t)
	case AwaitSiblings:
		t := *live(s, d.Token)
		if d.Completes {
			note(s, &t, workflow.Completed, d.Output, nil)
		}
		if d.Skipped {
			t.Epoch = 0
		}
		t.Status, t.Scope, t.Via, t.Source = workflow.WaitingForSiblings, d.Scope, d.Via, d.Source
		leave(&t)
		s.PutToken(&t)
	default:
		misplaced(d)
	}
}

func evolveRun(s *state.State, d Decision) {
	switch d := d.(type) {
	case StartRun:
		move(s, workflow.MoveStart)
		s.Input, s.StartedAt, s.Due = d.Input, d.At, d.Due
		s.Parent, s.Pins = d.Parent, d.Pins
		s.InitData()
	case CompleteRun:
		endAll(s)
		move(s, workflow.MoveComplete)
		s.Output, s.EndedAt = d.Output, d.At
	case FailRun:
		endAll(s)
		move(s, workflow.MoveFail)
		s.Failure, s.EndedAt = &d.Failure, d.At
	case ExpireRun:
		endAll(s)
		move(s, workflow.MoveExpire)
		s.Failure, s.EndedAt = &d.Failure, d.At
	case CancelRun:
		endAll(s)
		move(s, workflow.MoveCancel)
		s.Failure, s.EndedAt = &d.Failure, d.At
	case SuspendRun:
		move(s, workflow.MoveSuspend)
		s.Failure = &d.Failure
	case ResumeRun:
		move(s, workflow.MoveResume)
		s.Failure, s.ParentPauses = nil, false
	case PauseRun:
		move(s, workflow.MovePause)
		s.ParentPauses = d.Parent
	case DeferFailure:
		s.Deferred = &d.Failure
	default:
		misplaced(d)
	}
}

func move(s *state.State, m workflow.RunMove) {
	to, err := s.Status.Next(m)
	if err != nil {
		panic("decision: " + err.Error())
	}
	s.Status = to
}

// endAll cancels every live token: the run ends.
func endAll(s *state.State) {
	if s.Live() == 0 {
		return
	}
	cancel(s, s.LiveTokens())
}

func cancel(s *state.State, ids []workflow.TokenID) {
	for _, id := range ids {
		end(s, s.Token(id), workflow.Cancelled, nil, nil)
	}
}
