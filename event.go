package pawl

import "github.com/pawl-run/pawl/decision"

// An Event tells what has changed in a run: what Events lists. Events of a run
// are numbered from 1 without gaps.
type Event = decision.Event

// An EventType names what happened, as in task.completed.
type EventType = decision.EventType

// A Record is one message that a run has taken, with what was decided: what
// Journal lists.
type Record = decision.Record

// Events of a run.
const (
	EventWorkflowStarted   = decision.WorkflowStarted   // workflow.started
	EventWorkflowCompleted = decision.WorkflowCompleted // workflow.completed
	EventWorkflowFailed    = decision.WorkflowFailed    // workflow.failed
	EventWorkflowTimedOut  = decision.WorkflowTimedOut  // workflow.timed_out
	EventWorkflowCancelled = decision.WorkflowCancelled // workflow.cancelled
	EventWorkflowSuspended = decision.WorkflowSuspended // workflow.suspended
	EventWorkflowResumed   = decision.WorkflowResumed   // workflow.resumed
	EventWorkflowPaused    = decision.WorkflowPaused    // workflow.paused
	EventArtifactStaged    = decision.ArtifactStaged    // artifact.staged
	EventArtifactCommitted = decision.ArtifactCommitted // artifact.committed
	EventWorkflowPatched   = decision.WorkflowPatched   // workflow.patched
)

// Events of tokens, which walk the nodes of a run.
const (
	EventTokenCreated   = decision.TokenCreated   // token.created
	EventTokenWaiting   = decision.TokenWaiting   // token.waiting
	EventTokenCompleted = decision.TokenCompleted // token.completed
	EventTokenFailed    = decision.TokenFailed    // token.failed
	EventTokenTimedOut  = decision.TokenTimedOut  // token.timed_out
	EventTokenCancelled = decision.TokenCancelled // token.cancelled
	EventJoinCompleted  = decision.JoinCompleted  // join.completed
	EventNodeSkipped    = decision.NodeSkipped    // node.skipped
)

// Events of tasks.
const (
	EventTaskDispatched = decision.TaskDispatched // task.dispatched
	EventTaskCompleted  = decision.TaskCompleted  // task.completed
	EventTaskFailed     = decision.TaskFailed     // task.failed
	EventTaskRetrying   = decision.TaskRetrying   // task.retrying
	EventTaskParked     = decision.TaskParked     // task.parked
)

// Events of groups: a fan-out, its join and what the branches come to. Each is
// one event, however wide the group.
const (
	EventFanOutStarted  = decision.FanOutStarted  // fan_out.started
	EventFanInCompleted = decision.FanInCompleted // fan_in.completed
	EventFanInAbandoned = decision.FanInAbandoned // fan_in.abandoned
	EventFanInFailed    = decision.FanInFailed    // fan_in.failed
	EventFanInShortfall = decision.FanInShortfall // fan_in.shortfall
	EventBranchesMerged = decision.BranchesMerged // branches.merged
	EventBranchAdded    = decision.BranchAdded    // fan_out.added
	EventGroupClosed    = decision.GroupClosed    // fan_out.closed
)

// Events of subworkflows, in the parent run.
const (
	EventSubworkflowStarted   = decision.SubworkflowStarted   // subworkflow.started
	EventSubworkflowCompleted = decision.SubworkflowCompleted // subworkflow.completed
	EventSubworkflowFailed    = decision.SubworkflowFailed    // subworkflow.failed
)

// Events of signals.
const (
	EventSignalReceived = decision.SignalReceived // signal.received
	EventSignalTaken    = decision.SignalTaken    // signal.taken
	EventSignalLost     = decision.SignalLost     // signal.lost
	EventSignalRejected = decision.SignalRejected // signal.rejected
)

// Events of approvals.
const (
	EventApprovalRequested = decision.ApprovalRequested // approval.requested
	EventApprovalVoted     = decision.ApprovalVoted     // approval.voted
	EventApprovalDecided   = decision.ApprovalDecided   // approval.decided
)
