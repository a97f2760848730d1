package decision

import (
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// FailureValue returns f as expressions see it: {code, message, attempts}; nil for nil. It is
// the variable error, what nodes.ID.error has, and the data of events. The integer is an
// int64, as all integers of expressions are.
func FailureValue(f *workflow.Failure) map[string]any {
	if f == nil {
		return nil
	}
	return map[string]any{"code": f.Code, "message": f.Message, "attempts": int64(f.Attempts)}
}

// appendCompleted adds task.completed, which comes before the event of a token whose task it was. A node
// that is no task, or whose task an operator skips while no attempt of it runs, has only the
// event of the token.
func appendCompleted(told []Told, s *state.State, id workflow.TokenID, metadata map[string]any) []Told {
	t := s.Token(id)
	if t.Status != workflow.Dispatched {
		return told
	}
	return pace.Push(told, TellEvent(Event{Type: workflow.EventTaskCompleted, Token: id, Node: t.Node, Group: t.Scope.Group, Data: metadata}))
}

// failedEvents puts task.failed before the event of a token whose task it was. It likewise
// leaves task.failed out where no attempt was running: the input could not be evaluated, say,
// so that no task had begun.
func failedEvents(s *state.State, id workflow.TokenID, typ workflow.EventType, f *workflow.Failure) []Event {
	then := tokenEvent(s, typ, id, FailureValue(f))
	if s.Token(id).Status != workflow.Dispatched {
		return []Event{then}
	}
	return []Event{tokenEvent(s, workflow.EventTaskFailed, id, FailureValue(f)), then}
}

// tokenEvent returns an event about a token, at its node and in its branch, which it adds to
// data. The particulars of task.completed are the handler's own, so that it has none. It may
// write into data, so that callers give it a map of their own.
func tokenEvent(s *state.State, typ workflow.EventType, id workflow.TokenID, data map[string]any) Event {
	t := s.Token(id)
	e := Event{Type: typ, Token: id, Node: t.Node, Data: data}
	putBranch(&e, t.Scope)
	return e
}

// putBranch says in which branch the token of an event is.
func putBranch(e *Event, sc workflow.Scope) {
	if e.Group = sc.Group; sc.Group == 0 {
		return
	}
	if e.Data == nil {
		e.Data = map[string]any{}
	}
	e.Data["branch"] = int64(sc.Branch)
}

// waitingFor says that a token waits, and for what. Here that is a lock, a join, an event or
// resume; timers and siblings are told in the same form.
func waitingFor(s *state.State, id workflow.TokenID, what string, more map[string]any) Event {
	if more == nil {
		more = map[string]any{}
	}
	more["for"] = what
	return tokenEvent(s, workflow.EventTokenWaiting, id, more)
}

// scopeData are those of token.created. Only that has the group among its data; all have it in a field of the event.
type scopeData struct{}

func (scopeData) makeData(e *Event) map[string]any {
	if e.Group == 0 {
		return nil
	}
	return map[string]any{"group": int64(e.Group)}
}

func (scopeData) appendText(text []byte, e *Event, branch int) []byte {
	if e.Group == 0 {
		return text
	}
	text = appendField(append(text, '{'), "branch", int64(branch))
	return append(appendField(append(text, ','), "group", int64(e.Group)), '}')
}

// countsText is the text of loop counts; "" if there are none. JSON with sorted keys makes it
// deterministic, which the order of a map is not.
func countsText(c state.Counts) string {
	if len(c) == 0 {
		return ""
	}
	m := make(map[string]any, len(c))
	for k, v := range c {
		m[string(k)] = int64(v)
	}
	return string(value.Encode(m))
}
