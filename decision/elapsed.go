package decision

import (
	"maps"
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// DetailedSince is the first version of the planner whose records tell what events tell now:
// the branch, the token of the first branch, how many tokens were withdrawn, how long what
// timed out has lasted. The events of older records, where they were written, tell less.
const DetailedSince = 2

// addElapsed adds to the event of a time-out how long it had been waited, in milliseconds,
// given the state before: at least what the definition allows, more if nobody could look in
// time. An event whose time-out is not found to have come about is left as it is: a patch may
// have taken away what it was measured by.
func addElapsed(s *state.State, e *Event) {
	since := waitBegan(s, e)
	if since.IsZero() || since.After(e.At) {
		return
	}
	e.Data["elapsedMs"] = e.At.Sub(since).Milliseconds()
}

// waitBegan returns when the wait began whose timeout an event tells; zero for any other
// event. Tokens and groups keep only the deadline: the definition says how long before it
// the wait began.
func waitBegan(s *state.State, e *Event) time.Time {
	switch e.Type {
	case workflow.EventWorkflowTimedOut:
		return s.StartedAt
	case workflow.EventFanInCompleted, workflow.EventFanInFailed:
		return gatheringBegan(s, e)
	case workflow.EventTaskFailed, workflow.EventTaskRetrying, workflow.EventTaskParked, workflow.EventTokenFailed, workflow.EventTokenTimedOut:
		return attemptBegan(s, e)
	default:
		return time.Time{}
	}
}

// attemptBegan returns when the wait of a token began whose time is up. A wait keeps its
// node's limit in Beat, since Due is its timer; any other token has it in Due.
func attemptBegan(s *state.State, e *Event) time.Time {
	failure := e.Data
	if nested, ok := e.Data["error"].(map[string]any); ok {
		failure = nested
	}
	t, n := s.Token(e.Token), s.Graph.Node(e.Node)
	if n == nil || t.Status == workflow.Retrying { // a patch removed it, or an operator retries
		return time.Time{}
	}
	until, most := t.Due, n.Timeout
	switch failure["code"] {
	case workflow.CodeHeartbeatTimeout:
		until, most = t.Beat, n.Heartbeat
	case workflow.CodeTimeout, workflow.CodeApprovalTimeout:
		if t.Status == workflow.WaitingForTimer || t.Status == workflow.WaitingForEvent {
			until = t.Beat
		}
	default:
		return time.Time{}
	}
	if until.IsZero() || until.After(e.At) {
		return time.Time{}
	}
	return until.Add(-most)
}

// gatheringBegan returns when the first branch arrived at a join whose time is up.
func gatheringBegan(s *state.State, e *Event) time.Time {
	g := s.Group(e.Group)
	spec := s.Graph.Groups[g.Name]
	if e.Data["timedOut"] != true || g.Due.IsZero() || spec == nil || spec.Sync == nil {
		return time.Time{}
	}
	return g.Due.Add(-spec.Sync.Timeout)
}

// addMetadata adds to the event of an attempt that failed what its executor has told about
// it. The metadata of a completed attempt is with task.completed. Here are the events of
// failures, which have the data of the failure.
func addMetadata(m state.Message, e *Event) {
	id, metadata := state.MetadataOf(m) // also of a result that failed: of one that has not, task.completed has them
	if e.Token != id || len(metadata) == 0 {
		return
	}
	switch e.Type {
	case workflow.EventTaskRetrying, workflow.EventTaskFailed, workflow.EventTaskParked:
		e.Data["metadata"] = metadata
	default: // other events of the token tell other things
	}
}

// beganAt is the field of an event's data that tells when somebody began to perform the attempt that it ends.
const beganAt = "beganAt"

// attemptEnds are the events that tell of the end of an attempt. The data of task.completed are the handler's own, so that the
// event behind it tells; a token whose task failed for good has told it with task.failed.
var attemptEnds = []workflow.EventType{
	workflow.EventTokenCompleted, workflow.EventTokenWaiting, workflow.EventTaskFailed, workflow.EventTaskRetrying, workflow.EventTaskSnoozed, workflow.EventTaskParked,
}

// addBegan adds to the event of the end of an attempt when somebody began to perform it, if the message of its record says so.
// It was dispatched at the instant of its event task.dispatched.
func addBegan(m state.Message, t *Told) {
	began := state.BeganOf(m)
	if began.IsZero() || !slices.Contains(attemptEnds, t.event.Type) || t.event.Token != state.TokenOf(m) {
		return
	}
	if t.later != nil {
		t.began = began.UnixMilli()
		return
	}
	data := maps.Clone(t.event.Data) // it may belong to the decision
	if data == nil {
		data = map[string]any{}
	}
	data[beganAt] = timeText(began)
	t.event.Data = data
}
