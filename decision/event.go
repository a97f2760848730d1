package decision

import (
	"fmt"
	"time"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// An Event tells the world what a decision changed. Events of a run are
// numbered from 1 without gaps.
type Event struct {
	Seq    int64            // set by whoever keeps the event
	Record int64            // sequence of the journal record that it belongs to
	At     time.Time        // of that record
	Type   EventType        // what happened
	Token  workflow.TokenID // whose, if it concerns one
	Node   workflow.NodeID  // where
	Group  workflow.GroupID // of which group, if it concerns one
	Data   map[string]any   // particulars, by type; nil if none
}

// An EventType names what happened.
type EventType string

// The types of event. A fan-out, the close of a group and the end of a run are
// one event each, however wide.
const (
	WorkflowStarted   EventType = "workflow.started"
	WorkflowCompleted EventType = "workflow.completed"
	WorkflowFailed    EventType = "workflow.failed"
	WorkflowTimedOut  EventType = "workflow.timed_out"
	WorkflowCancelled EventType = "workflow.cancelled"
	WorkflowSuspended EventType = "workflow.suspended"
	WorkflowResumed   EventType = "workflow.resumed"
	TokenCreated      EventType = "token.created"
	TokenWaiting      EventType = "token.waiting"
	TokenCompleted    EventType = "token.completed"
	TokenFailed       EventType = "token.failed"
	TokenTimedOut     EventType = "token.timed_out"
	TokenCancelled    EventType = "token.cancelled"
	TaskDispatched    EventType = "task.dispatched"
	TaskCompleted     EventType = "task.completed"
	TaskFailed        EventType = "task.failed"
	TaskRetrying      EventType = "task.retrying"
	TaskParked        EventType = "task.parked"
	FanOutStarted     EventType = "fan_out.started"
	FanInCompleted    EventType = "fan_in.completed"
	FanInAbandoned    EventType = "fan_in.abandoned"
	FanInFailed       EventType = "fan_in.failed"
	FanInShortfall    EventType = "fan_in.shortfall"
	BranchesMerged    EventType = "branches.merged"
	BranchAdded       EventType = "fan_out.added"
	GroupClosed       EventType = "fan_out.closed"
	JoinCompleted     EventType = "join.completed"
	NodeSkipped       EventType = "node.skipped"

	WorkflowPaused       EventType = "workflow.paused"
	WorkflowPatched      EventType = "workflow.patched"
	ArtifactStaged       EventType = "artifact.staged"
	ArtifactCommitted    EventType = "artifact.committed"
	SubworkflowStarted   EventType = "subworkflow.started"
	SubworkflowCompleted EventType = "subworkflow.completed"
	SubworkflowFailed    EventType = "subworkflow.failed"
	SignalReceived       EventType = "signal.received"
	SignalTaken          EventType = "signal.taken"
	SignalLost           EventType = "signal.lost"
	SignalRejected       EventType = "signal.rejected"
	ApprovalRequested    EventType = "approval.requested"
	ApprovalVoted        EventType = "approval.voted"
	ApprovalDecided      EventType = "approval.decided"
)

// Events returns what d tells the world, given the state before it. It is pure
// and total; it panics if d cannot follow from s. Seq, Record and At are left to
// the caller.
func Events(s *state.State, d Decision) []Event {
	switch d := d.(type) {
	case CreateToken, CompleteToken, FailToken, ExpireToken, CancelToken, AwaitSiblings, AwaitTimer:
		return tokenEvents(s, d)
	case DispatchTask, RetryTask, ParkTask:
		return taskEvents(s, d)
	case CreateBranches, FireGroup, FailGroup, AbandonGroup, MergeBranches:
		return groupEvents(s, d)
	case StartRun, CompleteRun, FailRun, ExpireRun, CancelRun, SuspendRun, ResumeRun, PauseRun, PatchRun:
		return runEvents(s, d)
	case StartChild, EndChild, RequestApproval, AddVote, DecideApproval, AwaitLock, HoldToken, AwaitJoin, FireJoin, CancelTokens:
		return holdEvents(s, d)
	case AwaitEvent, KeepSignal, TakeSignal, LoseSignal, RejectSignal:
		return signalEvents(s, d)
	case AddBranch, CloseGroup, EndStep:
		return openEvents(s, d)
	case StageArtifacts:
		return []Event{tokenEvent(s, ArtifactStaged, d.Token, map[string]any{"artifacts": artifactValues(d.Artifacts)})}
	case TakeLock, ArmGroup, ListErrors, StartStep, DeferFailure:
		return nil
	case StartBranches, ArriveBranch, EndBranch, FailBranch, DropBranch, ExtendTask, SetData, AppendData:
		return nil
	default:
		panic(fmt.Sprintf("decision: unknown %T", d))
	}
}

func tokenEvents(s *state.State, d Decision) []Event {
	switch d := d.(type) {
	case CreateToken:
		return []Event{{Type: TokenCreated, Token: d.Token.ID, Node: d.Token.Node, Data: scopeData(d.Token.Scope)}}
	case CompleteToken:
		return completed(s, d.Token, d.Metadata, tokenEvent(s, TokenCompleted, d.Token, nil))
	case AwaitSiblings:
		waiting := tokenEvent(s, TokenWaiting, d.Token, map[string]any{"for": "siblings", "via": string(d.Via)})
		waiting.Group = d.Scope.Group
		if d.Completes {
			waiting.Data["completes"] = true
		}
		if !d.Completes {
			return []Event{waiting}
		}
		return completed(s, d.Token, d.Metadata, waiting)
	case AwaitTimer:
		return []Event{tokenEvent(s, TokenWaiting, d.Token, map[string]any{"for": "timer", "until": timeText(d.Due)})}
	case FailToken:
		return failed(s, d.Token, TokenFailed, &d.Failure)
	case ExpireToken:
		return failed(s, d.Token, TokenTimedOut, &d.Failure)
	case CancelToken:
		return []Event{tokenEvent(s, TokenCancelled, d.Token, map[string]any{"reason": d.Reason})}
	default:
		return misplaced(d)
	}
}

// completed puts task.completed before the event of a token whose task it was.
func completed(s *state.State, id workflow.TokenID, metadata map[string]any, then Event) []Event {
	if s.Token(id).Status != workflow.Dispatched {
		return []Event{then}
	}
	return []Event{tokenEvent(s, TaskCompleted, id, metadata), then}
}

func failed(s *state.State, id workflow.TokenID, typ EventType, f *workflow.Failure) []Event {
	then := tokenEvent(s, typ, id, FailureValue(f))
	if s.Token(id).Status != workflow.Dispatched {
		return []Event{then}
	}
	return []Event{tokenEvent(s, TaskFailed, id, FailureValue(f)), then}
}

func tokenEvent(s *state.State, typ EventType, id workflow.TokenID, data map[string]any) Event {
	return Event{Type: typ, Token: id, Node: s.Token(id).Node, Data: data}
}

func taskEvents(s *state.State, d Decision) []Event {
	switch d := d.(type) {
	case DispatchTask:
		return []Event{tokenEvent(s, TaskDispatched, d.Token, map[string]any{"task": d.Task, "attempt": int64(d.Attempt)})}
	case RetryTask:
		data := map[string]any{"due": timeText(d.Due)}
		if d.Failure != nil {
			data["error"] = FailureValue(d.Failure)
		}
		return []Event{tokenEvent(s, TaskRetrying, d.Token, data)}
	case ParkTask:
		return []Event{tokenEvent(s, TaskParked, d.Token, FailureValue(&d.Failure))}
	default:
		return misplaced(d)
	}
}

func groupEvents(s *state.State, d Decision) []Event {
	switch d := d.(type) {
	case CreateBranches:
		return []Event{{Type: FanOutStarted, Token: d.Group.Origin, Node: d.Group.Node, Group: d.Group.ID,
			Data: map[string]any{"name": d.Group.Name, "total": int64(d.Group.Total)}}}
	case FireGroup:
		done := groupEvent(s, FanInCompleted, d.Group)
		if d.TimedOut {
			done.Data["timedOut"] = true
		}
		if !d.Shortfall {
			return []Event{done}
		}
		return []Event{groupEvent(s, FanInShortfall, d.Group), done}
	case FailGroup:
		out := groupEvent(s, FanInFailed, d.Group)
		out.Data["error"] = FailureValue(&d.Failure)
		if d.Shortfall {
			return []Event{groupEvent(s, FanInShortfall, d.Group), out}
		}
		return []Event{out}
	case AbandonGroup:
		if spec := s.Graph.Groups[s.Group(d.Group).Name]; spec == nil || spec.Sync == nil {
			return nil // there is no fan-in to abandon
		}
		return []Event{groupEvent(s, FanInAbandoned, d.Group)}
	case MergeBranches:
		out := groupEvent(s, BranchesMerged, d.Group)
		out.Data["target"] = pathText(d.Path, d.Append)
		return []Event{out}
	default:
		return misplaced(d)
	}
}

func groupEvent(s *state.State, typ EventType, id workflow.GroupID) Event {
	g := s.Group(id)
	return Event{Type: typ, Token: g.Origin, Node: g.Node, Group: id, Data: map[string]any{
		"name": g.Name, "total": int64(g.Total), "arrived": int64(g.Arrived),
		"ended": int64(g.Ended), "failed": int64(g.Failed),
	}}
}

func runEvents(s *state.State, d Decision) []Event {
	switch d := d.(type) {
	case StartRun:
		def := s.Graph.Definition
		return []Event{{Type: WorkflowStarted, Data: map[string]any{"workflow": def.Name, "version": int64(def.Version)}}}
	case CompleteRun:
		if len(s.Artifacts) == 0 {
			return []Event{{Type: WorkflowCompleted}}
		}
		return []Event{{Type: ArtifactCommitted, Data: map[string]any{"count": int64(len(s.Artifacts))}}, {Type: WorkflowCompleted}}
	case FailRun:
		return []Event{{Type: WorkflowFailed, Data: FailureValue(&d.Failure)}}
	case ExpireRun:
		return []Event{{Type: WorkflowTimedOut, Data: FailureValue(&d.Failure)}}
	case CancelRun:
		return []Event{{Type: WorkflowCancelled, Data: FailureValue(&d.Failure)}}
	case SuspendRun:
		return []Event{{Type: WorkflowSuspended, Data: FailureValue(&d.Failure)}}
	case ResumeRun:
		return []Event{{Type: WorkflowResumed}}
	case PauseRun:
		return []Event{{Type: WorkflowPaused}}
	case PatchRun:
		return []Event{{Type: WorkflowPatched, Data: map[string]any{"revision": int64(d.Revision)}}}
	default:
		return misplaced(d)
	}
}

func scopeData(sc workflow.Scope) map[string]any {
	if sc.Group == 0 {
		return nil
	}
	return map[string]any{"group": int64(sc.Group), "branch": int64(sc.Branch)}
}

func timeText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func artifactValues(as []workflow.Artifact) []any {
	out := make([]any, len(as))
	for i, a := range as {
		out[i] = map[string]any{"name": a.Name, "hash": a.Hash, "size": a.Size}
	}
	return out
}
