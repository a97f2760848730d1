package decision

import (
	"time"

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
