package workflow

// An EventType names what an event tells about a run: what happened, as in task.completed. An event is told by a
// decision, as it is committed, and is never withdrawn. The texts are part of the API and of the files of runs.
type EventType string

// Events of a run. Exactly one of completed, failed, timed_out and cancelled ends it. Artifacts are staged by the
// results of tasks, and committed when the run completes.
const (
	EventWorkflowStarted   EventType = "workflow.started"
	EventWorkflowCompleted EventType = "workflow.completed"
	EventWorkflowFailed    EventType = "workflow.failed"
	EventWorkflowTimedOut  EventType = "workflow.timed_out"
	EventWorkflowCancelled EventType = "workflow.cancelled"
	EventWorkflowSuspended EventType = "workflow.suspended"
	EventWorkflowResumed   EventType = "workflow.resumed"
	EventWorkflowPaused    EventType = "workflow.paused"
	EventArtifactStaged    EventType = "artifact.staged"
	EventArtifactCommitted EventType = "artifact.committed"
	EventWorkflowPatched   EventType = "workflow.patched"
	EventLimitsRaised      EventType = "workflow.limits_raised"
	EventWorkflowForked    EventType = "workflow.forked"
)

// Events of tokens, which walk the nodes of a run. The data of token.waiting say what the token waits for;
// join.completed reports that the join of a node, not of a group, has fired, and names the tokens that met there;
// node.skipped reports a node of a dag that never runs.
const (
	EventTokenCreated   EventType = "token.created"
	EventTokenWaiting   EventType = "token.waiting"
	EventTokenCompleted EventType = "token.completed"
	EventTokenFailed    EventType = "token.failed"
	EventTokenTimedOut  EventType = "token.timed_out"
	EventTokenCancelled EventType = "token.cancelled"
	EventJoinCompleted  EventType = "join.completed"
	EventNodeSkipped    EventType = "node.skipped"
)

// Events of tasks. Each attempt is dispatched once, though it may be handed out again after a restart, which is no
// event. It ends as completed, failed, retrying (a further attempt follows), snoozed (as the task has asked) or
// parked (an operator is to decide).
const (
	EventTaskDispatched   EventType = "task.dispatched"
	EventTaskCompleted    EventType = "task.completed"
	EventTaskFailed       EventType = "task.failed"
	EventTaskRetrying     EventType = "task.retrying"
	EventTaskSnoozed      EventType = "task.snoozed"
	EventTaskParked       EventType = "task.parked"
	EventTaskInputRenewed EventType = "task.input_renewed"
)

// Events of groups: a fan-out, its join and the merge of its branches. Each is
// one event, however wide the group.
const (
	EventFanOutStarted  EventType = "fan_out.started"
	EventFanInCompleted EventType = "fan_in.completed"
	EventFanInAbandoned EventType = "fan_in.abandoned"
	EventFanInFailed    EventType = "fan_in.failed"
	EventFanInShortfall EventType = "fan_in.shortfall"
	EventBranchesMerged EventType = "branches.merged"
	EventBranchAdded    EventType = "fan_out.added"
	EventGroupClosed    EventType = "fan_out.closed"
)

// Events of subworkflows, in the parent run. The child run has events of its own, under its own id.
const (
	EventSubworkflowStarted   EventType = "subworkflow.started"
	EventSubworkflowCompleted EventType = "subworkflow.completed"
	EventSubworkflowFailed    EventType = "subworkflow.failed"
)

// Events of signals. A signal is received once. Later one token takes it, or it is lost, because its TTL has passed or
// it is transient and no token waited. signal.rejected says that the match of a waiting token has failed with an error.
const (
	EventSignalReceived EventType = "signal.received"
	EventSignalTaken    EventType = "signal.taken"
	EventSignalLost     EventType = "signal.lost"
	EventSignalRejected EventType = "signal.rejected"
)

// Events of approvals: people are asked, each vote is told, and the decision is told once.
const (
	EventApprovalRequested EventType = "approval.requested"
	EventApprovalVoted     EventType = "approval.voted"
	EventApprovalDecided   EventType = "approval.decided"
)
