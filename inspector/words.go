package inspector

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/workflow"
)

// An effectWords gathers what an act would do, as people say it: "ship is begun", and not "task.dispatched".
//
// Events of one kind at one node are one line. The zero value is empty.
type effectWords struct {
	lines  []wordLine
	places map[wordLine]int
}

// A wordLine is what happens at a node, so often. Node is "" of what happens to the run.
type wordLine struct {
	node workflow.NodeID
	text string // what stands behind the node, or a sentence
	n    int
}

// addEvent adds what an event means to people. Most events are particulars of others, and add nothing.
func (w *effectWords) addEvent(e *history.Event) {
	key := wordLine{node: e.Node, text: wordsOfEvent(e.Type)}
	if key.text == "" {
		return
	}
	if e.Type == workflow.EventWorkflowFailed {
		if code, ok := e.Data["code"].(string); ok {
			key.text += " with the code " + code
		}
	}
	if isOfRun(e.Type) {
		key.node = ""
	} else if nodes, ok := e.Data["nodes"].([]any); ok && key.node == "" { // what ends at several nodes is told once
		key.node = workflow.NodeID(joinTexts(nodes))
	}
	i, known := w.places[key]
	if !known {
		if w.places == nil {
			w.places = map[wordLine]int{}
		}
		i = len(w.lines)
		w.places[key] = i
		w.lines = append(w.lines, key)
	}
	w.lines[i].n++
}

// joinTexts returns texts with commas between them.
func joinTexts(list []any) string {
	var texts []string
	for _, one := range list {
		if text, ok := one.(string); ok {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, ", ")
}

// isImplied reports whether another line of the node says more: what is begun needs no word that it will be, nor a decision its last vote.
func (w *effectWords) isImplied(l wordLine) bool {
	more := map[string]workflow.EventType{
		wordsOfEvent(workflow.EventTaskRetrying):  workflow.EventTaskDispatched,
		wordsOfEvent(workflow.EventApprovalVoted): workflow.EventApprovalDecided,
	}
	of, ok := more[l.text]
	if !ok {
		return false
	}
	_, there := w.places[wordLine{node: l.node, text: wordsOfEvent(of)}]
	return there
}

// maxWords bounds the lines, as effectEvents does the events.
const maxWords = 12

// Lines returns a line for each kind of event and node, in the order in which they come.
func (w *effectWords) Lines() (out []string) {
	lines := slices.DeleteFunc(slices.Clone(w.lines), w.isImplied)
	for i, l := range lines {
		if i == maxWords {
			return append(out, fmt.Sprintf("and %d things more", len(lines)-i))
		}
		text := l.text
		if l.node != "" {
			text = fmt.Sprintf("%s %s", l.node, l.text)
		}
		if l.n > 1 {
			text += fmt.Sprintf(", %s times", groupDigits(l.n))
		}
		out = append(out, text)
	}
	return out
}

// isOfRun reports whether an event is told of the run as a whole.
func isOfRun(t workflow.EventType) bool {
	return strings.HasPrefix(string(t), "workflow.") || t == workflow.EventSignalReceived || t == workflow.EventSignalLost
}

// wordsOfEvent returns what stands behind the node of an event, or a sentence of the run; "" for an event that says to people nothing that
// others do not say.
func wordsOfEvent(t workflow.EventType) string {
	switch t {
	case workflow.EventWorkflowCompleted:
		return "the run is completed"
	case workflow.EventWorkflowFailed:
		return "the run fails"
	case workflow.EventWorkflowTimedOut:
		return "the run has timed out"
	case workflow.EventWorkflowCancelled:
		return "the run is cancelled"
	case workflow.EventWorkflowSuspended:
		return "the run is suspended: it goes on only when somebody resumes it"
	case workflow.EventWorkflowResumed:
		return "the run goes on"
	case workflow.EventWorkflowPaused:
		return "the run begins nothing new until it is resumed"
	case workflow.EventWorkflowPatched:
		return "the run has another definition"
	case workflow.EventLimitsRaised:
		return "the run may report more"
	case workflow.EventWorkflowForked:
		return "a new run is made"
	case workflow.EventSignalReceived:
		return "the signal is received"
	case workflow.EventSignalLost:
		return "the signal is lost: nobody waits for it"
	case workflow.EventSignalTaken:
		return "takes the signal"
	case workflow.EventSignalRejected:
		return "refuses the signal"
	case workflow.EventTaskDispatched:
		return "is begun"
	case workflow.EventTaskRetrying:
		return "is tried again later"
	case workflow.EventTaskParked:
		return "waits for an operator"
	case workflow.EventSubworkflowStarted:
		return "starts a child run"
	case workflow.EventApprovalRequested:
		return "asks people"
	case workflow.EventApprovalVoted:
		return "has one more vote"
	case workflow.EventApprovalDecided:
		return "is decided"
	case workflow.EventFanOutStarted:
		return "splits into branches"
	case workflow.EventFanInCompleted, workflow.EventJoinCompleted:
		return "has gathered its branches"
	case workflow.EventTokenFailed, workflow.EventTokenTimedOut:
		return "fails"
	case workflow.EventTokenCancelled:
		return "is withdrawn"
	case workflow.EventBranchAdded:
		return "has one more branch"
	case workflow.EventGroupClosed:
		return "takes no more branches"
	default:
		return ""
	}
}
