package decision

import (
	"strconv"
	"time"

	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A Told is an event whose data are perhaps not made yet. Nearly all events are read by nobody before they are
// written into the file of their run, which happens in the background, and their maps are most of what they take.
type Told struct {
	event  Event
	branch int       // of the group of the event, if that has one
	later  laterData // makes the data; nil if the event has them
	// began is when the attempt began whose end the event is, if its data are made later: as state.BeganOf has it, in milliseconds; 0 if
	// nobody knows.
	began int64
}

// A laterData makes the data of an event. It is immutable.
type laterData interface {
	// makeData returns them, but for the branch.
	makeData(e *Event) map[string]any
	// appendText appends their text, that of the branch included, if the event has a group: what value.Append makes of
	// them. An event that has neither group nor data has no text.
	appendText(text []byte, e *Event, branch int) []byte
}

// TellEvent returns an event that has all its data.
func TellEvent(e Event) Told { return Told{event: e} }

// TellEvents returns events that have all their data.
func TellEvents(events []Event) []Told {
	if len(events) == 0 {
		return nil
	}
	out := make([]Told, len(events))
	for i := range events {
		pace.Each(i)
		out[i] = TellEvent(events[i])
	}
	return out
}

// Bare returns the event, which nobody may change, perhaps without its data.
func (t *Told) Bare() *Event { return &t.event }

// AppendText appends the data as JSON, and reports whether there are any. It makes no map of them.
func (t *Told) AppendText(text []byte) (out []byte, some bool) {
	if t.later != nil {
		if t.began != 0 {
			return t.appendBegan(text), true
		}
		out = t.later.appendText(text, &t.event, t.branch)
		return out, len(out) > len(text)
	}
	if t.event.Data == nil {
		return text, false
	}
	return value.Append(text, t.event.Data), true
}

// appendBegan appends the data of the end of an attempt, of which somebody has told when it began. No name of the other data is
// before that field's.
func (t *Told) appendBegan(text []byte) []byte {
	text = append(appendName(append(text, '{'), beganAt), '"')
	text = append(appendTime(text, time.UnixMilli(t.began).UTC()), '"')
	from := len(text)
	if text = t.later.appendText(text, &t.event, t.branch); len(text) == from {
		return append(text, '}')
	}
	text[from] = ','
	return text
}

// Event returns the event with its data. Each call makes them anew.
func (t *Told) Event() Event {
	e := t.event
	if t.later == nil {
		return e
	}
	if e.Data = t.later.makeData(&e); e.Group != 0 {
		if e.Data == nil {
			e.Data = map[string]any{}
		}
		e.Data["branch"] = int64(t.branch)
	}
	if t.began != 0 {
		if e.Data == nil {
			e.Data = map[string]any{}
		}
		e.Data[beganAt] = timeText(time.UnixMilli(t.began))
	}
	return e
}

// EventsOf returns events with their data.
func EventsOf(told []Told) []Event {
	if len(told) == 0 {
		return nil
	}
	out := make([]Event, len(told))
	for i := range told {
		pace.Each(i)
		out[i] = told[i].Event()
	}
	return out
}

// A teller is a decision that tells its events without their data. The decisions that runs make most often are
// tellers.
type teller interface {
	// appendTold adds what toldEvents returns.
	appendTold(told []Told, s *state.State) []Told
}

// ErrorCode returns the code of the error that an event tells, "" if it tells none. The data of what has completed are the
// handler's own.
func ErrorCode(e *Event) string {
	if e.Type == workflow.EventTaskCompleted || e.Type == workflow.EventTokenCompleted {
		return ""
	}
	failure := e.Data
	if nested, ok := e.Data["error"].(map[string]any); ok {
		failure = nested
	}
	code, _ := failure["code"].(string)
	return code
}

// appendEvents adds what a decision tells the world, given the state before it.
func appendEvents(told []Told, s *state.State, d Decision) []Told {
	if t, ok := d.(teller); ok {
		return t.appendTold(told, s)
	}
	for _, e := range d.toldEvents(s) {
		told = pace.Push(told, TellEvent(e))
	}
	return told
}

// tellOf returns what tokenEvent does, with data that are made later.
func tellOf(s *state.State, typ workflow.EventType, id workflow.TokenID, later laterData) Told {
	t := s.Token(id)
	return Told{
		event:  Event{Type: typ, Token: id, Node: t.Node, Group: t.Scope.Group},
		branch: t.Scope.Branch, later: later,
	}
}

// noData are those of an event that tells nothing but the branch.
type noData struct{}

func (noData) makeData(*Event) map[string]any { return nil }

func (noData) appendText(text []byte, e *Event, branch int) []byte {
	if e.Group == 0 {
		return text
	}
	return append(appendField(append(text, '{'), "branch", int64(branch)), '}')
}

// appendField appends a field whose value is an integer.
func appendField(text []byte, name string, n int64) []byte {
	return strconv.AppendInt(appendName(text, name), n, 10)
}

// appendTextField appends a field whose value is a text.
func appendTextField(text []byte, name, v string) []byte {
	return value.AppendString(appendName(text, name), v)
}

func appendName(text []byte, name string) []byte {
	return append(append(append(text, '"'), name...), '"', ':')
}
