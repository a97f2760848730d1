package decision

import (
	"fmt"
	"time"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// AwaitTimer makes a token wait until Due, or until Limit, when its node
// times out, if that is earlier. Result is that of the node that was left,
// kept where until asks for it, which a further attempt or a patch evaluates anew.
//
// Due is kept in the token's Due and Limit in its Beat: whichever is earlier is its alarm,
// and which of them it was says how the wait ends.
type AwaitTimer struct {
	Token   workflow.TokenID `json:"token"`
	Attempt int              `json:"attempt"`
	Due     time.Time        `json:"due"`
	Limit   time.Time        `json:"limit,omitzero"`
	Result  any              `json:"result,omitzero"`
}

// String implements fmt.Stringer.
func (d AwaitTimer) String() string {
	return newLine("await-timer", d.Token).addTime("due", d.Due).addTime("limit", d.Limit).String()
}

func (d AwaitTimer) evolveState(s *state.State) {
	t := *liveToken(s, d.Token)
	t.Status, t.Attempt, t.Due, t.Beat = workflow.WaitingForTimer, d.Attempt, d.Due, d.Limit
	t.Input, t.Held = d.Result, false
	s.PutToken(&t)
}

func (d AwaitTimer) toldEvents(s *state.State) []Event {
	return []Event{tokenEvent(s, workflow.EventTokenWaiting, d.Token, map[string]any{"for": "timer", "until": timeText(d.Due)})}
}

func (AwaitTimer) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// AwaitEvent makes a token wait for an event, or until Due if one of what it
// waits for is a timer, or until Limit, when its node times out.
//
// The token is in one line for each of Names. A signal goes to the token that has waited
// longest.
type AwaitEvent struct {
	Token   workflow.TokenID `json:"token"`
	Attempt int              `json:"attempt"`
	Names   []string         `json:"names"`
	Due     time.Time        `json:"due,omitzero"`
	Limit   time.Time        `json:"limit,omitzero"`
	Result  any              `json:"result,omitzero"` // as in AwaitTimer
}

// String implements fmt.Stringer.
func (d AwaitEvent) String() string {
	return newLine("await-event", d.Token).addField("names", joinNames(d.Names)).addTime("due", d.Due).addTime("limit", d.Limit).String()
}

// evolveState keeps the result in Input, since match may ask for it whenever a signal comes.
func (d AwaitEvent) evolveState(s *state.State) {
	t := *liveToken(s, d.Token)
	t.Status, t.Attempt, t.Due, t.Beat = workflow.WaitingForEvent, d.Attempt, d.Due, d.Limit
	t.Input, t.Order, t.Held = d.Result, s.NextPlace(), false
	s.PutToken(&t)
}

func (d AwaitEvent) toldEvents(s *state.State) []Event {
	names := make([]any, len(d.Names))
	for i, n := range d.Names {
		names[i] = n
	}
	data := map[string]any{"names": names}
	if !d.Due.IsZero() {
		data["until"] = timeText(d.Due)
	}
	return []Event{waitingFor(s, d.Token, "event", data)}
}

func (AwaitEvent) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// KeepSignal keeps a signal until somebody takes it. Done says that its
// number is kept only: it was taken, or lost, at once.
//
// Every signal that is taken in has one, also if a token takes it in the same plan, because
// an id of the sender counts once per run for ever.
type KeepSignal struct {
	Seq     state.SignalID `json:"seq"`
	Name    string         `json:"name"`
	ID      string         `json:"id,omitzero"`
	Payload any            `json:"payload,omitzero"`
	Due     time.Time      `json:"due,omitzero"` // it is lost then
	Done    bool           `json:"done,omitzero"`
}

// String implements fmt.Stringer.
func (d KeepSignal) String() string {
	return newLine("keep-signal", int64(d.Seq)).addField("name", d.Name).addField("id", d.ID).addJSON("payload", d.Payload).
		addTime("due", d.Due).addFlag("done", d.Done).String()
}

// evolveState keeps a signal that nobody took, with its payload. If a signal was taken or
// lost at once, it keeps the id, by which a repetition is known.
func (d KeepSignal) evolveState(s *state.State) {
	k := &state.KeptSignal{Seq: d.Seq, Name: d.Name, ID: d.ID, Due: d.Due, Done: d.Done}
	if !d.Done {
		k.Payload = d.Payload
	}
	// The number is used up all the same, so that numbers of signals in events stay unique.
	if d.Done && d.ID == "" {
		s.NextSignal = d.Seq + 1 // nobody will ask for it
		return
	}
	s.PutSignal(k)
}

func (d KeepSignal) toldEvents(*state.State) []Event {
	data := map[string]any{"name": d.Name, "signal": int64(d.Seq)}
	if d.ID != "" {
		data["id"] = d.ID
	}
	return []Event{{Type: workflow.EventSignalReceived, Data: data}}
}

func (KeepSignal) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// TakeSignal gives a signal to a token. Kept signals are gone then. The decisions that follow
// complete the token.
type TakeSignal struct {
	Token workflow.TokenID `json:"token"`
	Seq   state.SignalID   `json:"seq"`
	Name  string           `json:"name"`
}

// String implements fmt.Stringer.
func (d TakeSignal) String() string {
	return newLine("take-signal", d.Token).addField("name", d.Name).addField("signal", fmt.Sprint(int64(d.Seq))).String()
}

// evolveState ends the token's wait, and the signal if it was kept. The token is pending
// until the decision that follows completes its node. A token that has just come to its node,
// and finds a kept signal, has not begun to wait.
func (d TakeSignal) evolveState(s *state.State) {
	t := *liveToken(s, d.Token)
	if t.Status == workflow.WaitingForEvent {
		t.Status, t.Due, t.Beat = workflow.Pending, never, never
		s.PutToken(&t)
	}
	endSignal(s, d.Seq)
}

func (d TakeSignal) toldEvents(s *state.State) []Event {
	return []Event{tokenEvent(s, workflow.EventSignalTaken, d.Token, map[string]any{"name": d.Name, "signal": int64(d.Seq)})}
}

func (TakeSignal) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// LoseSignal ends a signal that nobody took in time. It is a transient one for which nobody
// waits, or one whose time is up. No alarm looks for the latter: a wait that begins, or a
// signal that needs the room, finds it.
type LoseSignal struct {
	Seq  state.SignalID `json:"seq"`
	Name string         `json:"name"`
}

// String implements fmt.Stringer.
func (d LoseSignal) String() string {
	return newLine("lose-signal", int64(d.Seq)).addField("name", d.Name).String()
}

func (d LoseSignal) evolveState(s *state.State) { endSignal(s, d.Seq) }

func (d LoseSignal) toldEvents(*state.State) []Event {
	return []Event{{Type: workflow.EventSignalLost, Data: map[string]any{"name": d.Name, "signal": int64(d.Seq)}}}
}

func (LoseSignal) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// RejectSignal notes that a waiting token's match failed on a signal.
//
// An error in match is no match and does not fail the node, since the signal may be meant for
// another; the event is how its author learns of it.
type RejectSignal struct {
	Token   workflow.TokenID `json:"token"`
	Name    string           `json:"name"`
	Failure workflow.Failure `json:"failure"`
}

// String implements fmt.Stringer.
func (d RejectSignal) String() string {
	return newLine("reject-signal", d.Token).addField("name", d.Name).addFailure(&d.Failure).String()
}

func (RejectSignal) evolveState(*state.State) {
	// Nothing changes: it tells only.
}

func (d RejectSignal) toldEvents(s *state.State) []Event {
	return []Event{tokenEvent(s, workflow.EventSignalRejected, d.Token, map[string]any{"name": d.Name, "error": FailureValue(&d.Failure)})}
}

func (RejectSignal) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// endSignal keeps no more of a signal than its id. A signal that was never kept has no row,
// and needs no end.
func endSignal(s *state.State, id state.SignalID) {
	old := s.Signal(id)
	if old == nil || old.Done {
		return
	}
	k := *old
	k.Payload, k.Done = nil, true
	s.PutSignal(&k)
}
