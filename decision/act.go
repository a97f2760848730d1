package decision

import (
	"maps"
	"slices"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// nameActor adds to an event who has sent the message of its record, and why, if the event
// tells what the message asked for. Events that only follow from that are nobody's act: a
// Resume by ann gives by: ann to workflow.resumed, but not to the tasks that are dispatched
// because of it.
func nameActor(m state.Message, t *Told) {
	act, told := actTold(m, &t.event)
	if !told || act == (state.Act{}) {
		return
	}
	*t = TellEvent(t.Event())
	e := &t.event
	data := maps.Clone(e.Data) // it may belong to the decision
	if data == nil {
		data = map[string]any{}
	}
	if act.By != "" {
		data["by"] = act.By
	}
	if act.Reason != "" {
		data["reason"] = act.Reason
	}
	e.Data = data
}

// actTold returns who has sent a message and why, zero if that is not known, and whether an
// event of its record tells what it asked for. A new message that somebody sends on purpose
// needs a case here, or its events are in nobody's name.
func actTold(m state.Message, e *Event) (act state.Act, told bool) {
	switch m := m.(type) {
	case state.Start:
		return m.Act, e.Type == workflow.EventWorkflowStarted
	case state.TaskCompleted:
		return m.Act, isAbout(e, m.Token, "")
	case state.TaskFailed:
		return m.Act, isAbout(e, m.Token, "")
	case state.TaskSnoozed:
		return m.Act, isAbout(e, m.Token, "")
	case state.Cancel:
		return m.Act, e.Type == workflow.EventWorkflowCancelled
	case state.Retry:
		return m.Act, isAbout(e, m.Token, m.Node)
	case state.Skip:
		return m.Act, isAbout(e, m.Token, m.Node)
	case state.Resume:
		return m.Act, e.Type == workflow.EventWorkflowResumed
	case state.Pause:
		return m.Act, e.Type == workflow.EventWorkflowPaused || e.Type == workflow.EventWorkflowResumed
	case state.Signal:
		return m.Act, e.Type == workflow.EventSignalReceived
	case state.Ballot:
		return m.Act, e.Type == workflow.EventApprovalVoted
	case state.CancelNodes:
		return m.Act, e.Type == workflow.EventTokenCancelled
	case state.AddBranch:
		return m.Act, e.Type == workflow.EventBranchAdded
	case state.CloseGroup:
		return m.Act, e.Type == workflow.EventGroupClosed
	case state.RunForked:
		return m.Act, e.Type == workflow.EventWorkflowForked
	case state.Raise:
		return m.Act, e.Type == workflow.EventLimitsRaised
	case state.Patch:
		return m.Act, e.Type == workflow.EventWorkflowPatched
	default:
		return state.Act{}, false // nobody's call
	}
}

// tokenAct are the events of a token that may tell what was asked of it. The data of
// task.completed are the handler's own, so that token.completed tells it.
var tokenAct = []workflow.EventType{
	workflow.EventTokenCompleted, workflow.EventTokenWaiting, workflow.EventTokenFailed,
	workflow.EventTaskFailed, workflow.EventTaskSnoozed, workflow.EventTaskRetrying, workflow.EventTaskParked, workflow.EventTaskInputRenewed,
	workflow.EventTaskDispatched, workflow.EventSubworkflowStarted,
}

// isAbout reports whether an event tells what was asked of a token, which is named by
// its id or by its node.
func isAbout(e *Event, id workflow.TokenID, node workflow.NodeID) bool {
	named := e.Token == id || id == 0 && e.Node == node
	return e.Token != 0 && named && slices.Contains(tokenAct, e.Type)
}
