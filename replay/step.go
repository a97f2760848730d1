package replay

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A Frame is a run as it stood after one record.
//
// Everything in it is a copy for display, made by frameOf after the record was applied, but for State,
// Output and Failure, which are the run's own and not to be changed. Message names the token's node as
// it was before the record.
type Frame struct {
	Run       workflow.RunID     `json:"run"`
	Seq       int64              `json:"record"`
	Of        int64              `json:"of"` // records of the run
	At        time.Time          `json:"at"`
	Message   string             `json:"message"`
	Decisions []string           `json:"decisions"`
	Why       []string           `json:"why,omitempty"`   // what the planner says of the record
	Taken     []string           `json:"taken,omitempty"` // what ended in it, and the transitions that were taken
	Status    workflow.RunStatus `json:"status"`
	Tokens    []FrameToken       `json:"tokens,omitempty"` // those that live, by id
	Groups    []FrameGroup       `json:"groups,omitempty"` // those that gather, by id
	State     map[string]any     `json:"state,omitempty"`
	Output    map[string]any     `json:"output,omitempty"`  // of a run that has completed
	Failure   *workflow.Failure  `json:"failure,omitempty"` // of a run that has ended otherwise
	Alarm     time.Time          `json:"alarm,omitzero"`    // when time alone changes it next; zero if never
	Redacted  bool               `json:"redacted,omitzero"` // values are only shapes, and there is no Why and no Taken
}

// A FrameToken is a live token of a Frame.
type FrameToken struct {
	ID      workflow.TokenID     `json:"id"`
	Place   string               `json:"place"` // its node, with the branches that it is in
	Status  workflow.TokenStatus `json:"status"`
	Attempt int                  `json:"attempt,omitempty"`
	Due     time.Time            `json:"due,omitzero"`
}

// A FrameGroup is a fan-out of a Frame whose join has not been decided.
type FrameGroup struct {
	ID      workflow.GroupID `json:"id"`
	Name    string           `json:"name,omitempty"`
	Place   string           `json:"place"` // the node that fanned out
	Total   int              `json:"total"`
	Arrived int              `json:"arrived"`
	Ended   int              `json:"ended"`
	Failed  int              `json:"failed"`
}

// shownTokens bounds the tokens and the groups that String lists.
const shownTokens = 20

// String returns the frame in some lines.
// The lists are cut at shownTokens, values at maxShown bytes; the fields of the Frame have them all.
func (f *Frame) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s record %d/%d %s %s\n", f.Run, f.Seq, f.Of, f.At.Format("2006-01-02 15:04:05.000"), f.Message)
	for _, d := range f.Decisions {
		fmt.Fprintf(&b, "  %s\n", d)
	}
	for _, why := range f.Why {
		fmt.Fprintf(&b, "  why: %s\n", why)
	}
	if f.Redacted {
		b.WriteString("  without values: x, 0 and false stand for them\n")
	}
	fmt.Fprintf(&b, "then %v", f.Status)
	if !f.Alarm.IsZero() {
		fmt.Fprintf(&b, ", next alarm %s", f.Alarm.Format("2006-01-02 15:04:05.000"))
	}
	b.WriteByte('\n')
	for i, t := range f.Tokens {
		if i == shownTokens {
			fmt.Fprintf(&b, "  and %d more threads\n", len(f.Tokens)-i)
			break
		}
		fmt.Fprintf(&b, "  %v %s %v", t.ID, t.Place, t.Status)
		if t.Attempt > 1 {
			fmt.Fprintf(&b, ", attempt %d", t.Attempt)
		}
		b.WriteByte('\n')
	}
	for i, g := range f.Groups {
		if i == shownTokens {
			fmt.Fprintf(&b, "  and %d more fan-outs\n", len(f.Groups)-i)
			break
		}
		fmt.Fprintf(&b, "  %v %s of %s: %d arrived, %d ended, %d failed of %d\n", g.ID, g.Name, g.Place, g.Arrived, g.Ended, g.Failed, g.Total)
	}
	if len(f.State) > 0 {
		fmt.Fprintf(&b, "  state %s\n", value.Shorten(string(value.Encode(f.State)), maxShown))
	}
	if f.Output != nil {
		fmt.Fprintf(&b, "  output %s\n", value.Shorten(string(value.Encode(f.Output)), maxShown))
	}
	if f.Failure != nil {
		fmt.Fprintf(&b, "  failure %v\n", f.Failure)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// maxShown bounds a value in a text, in bytes.
const maxShown = 400

// A Stepper shows a run after any of its records, in any order. It belongs to one goroutine.
// All records are in memory; states are not: the player has one, and every 256th is kept on the way, or fewer of a long run.
// at is always the number of records that the player has applied. graphs has the definition of each
// kept state, since a patch may have changed it.
type Stepper struct {
	rec     *Recording
	records []decision.Record
	player  *player
	at      int                // records that the player has played
	every   int                // records from one kept state to the next
	kept    map[int]state.Rows // states to go back to, by records played
	graphs  map[int]*compiled.Graph
}

// keepEvery is how many records apart the states are at first that a stepper can go back to, and maxKept how many it
// keeps at most.
const (
	keepEvery = 256
	maxKept   = 32
)

// NewStepper reads a recording. An error says that it cannot be read, or has no records.
//
// It reads redacted runs as well: a Stepper is
// what can show them, since it need not plan.
func NewStepper(rec *Recording) (*Stepper, error) {
	s := &Stepper{rec: rec, every: keepEvery, kept: map[int]state.Rows{}, graphs: map[int]*compiled.Graph{}}
	for r, err := range rec.eachRedacted() {
		if err != nil {
			return nil, err
		}
		s.records = append(s.records, r)
	}
	s.player = newPlayer(rec)
	return s, nil
}

// Len returns how many records there are.
func (s *Stepper) Len() int64 { return int64(len(s.records)) }

// A RecordError says that a run has no record of that number.
type RecordError struct{ Seq, Len int64 }

// Error says which records there are.
func (e *RecordError) Error() string {
	return fmt.Sprintf("there is no record %d: the run has records 1 to %d", e.Seq, e.Len)
}

// At returns the run after the record seq, from 1. It fails with a *RecordError, or if the
// records do not fit each other.
//
// The record before is reached without planning; only the record that is shown is planned again, for
// Why and Taken. That the planner of today decides otherwise is not told here: the frame shows the
// recorded decisions, beside today's reasons.
func (s *Stepper) At(seq int64) (_ *Frame, err error) {
	defer s.rec.explainPanic(&err)
	if seq < 1 || seq > s.Len() {
		return nil, &RecordError{seq, s.Len()}
	}
	if err := s.seek(int(seq) - 1); err != nil {
		return nil, err
	}
	r := &s.records[s.at]
	message := state.DescribeMessage(r.Message)
	if s.player.state != nil {
		message = messageText(s.player.state, r.Message)
	}
	s.keepState()
	var step played
	if s.rec.redacted {
		err = s.player.applyRecord(r)
	} else {
		step, err = s.player.playRecord(r)
	}
	if err != nil {
		return nil, err
	}
	s.at++
	f := frameOf(s.player.state)
	f.Seq, f.Of, f.At, f.Message, f.Redacted = r.Seq, s.Len(), r.At, message, s.rec.redacted
	for _, d := range r.Decisions {
		f.Decisions = append(f.Decisions, d.String())
	}
	for _, n := range step.plan.Trace {
		f.Why = append(f.Why, n.String())
	}
	for i := range step.routes {
		route := &step.routes[i]
		f.Taken = append(f.Taken, fmt.Sprintf("%v %s%s", route.Token, route.Node, routeText(s.player.state.Graph, route, 0)))
	}
	return f, nil
}

// seek brings the player to where n records are played.
//
// Forward it goes record by record. Back it goes from the nearest kept state before n: a step back
// costs fewer records than lie between two of these, where playing from the first would cost all.
func (s *Stepper) seek(n int) error {
	if n < s.at {
		s.at = n - n%s.every
		s.player = newPlayer(s.rec)
		if rows, ok := s.kept[s.at]; ok {
			s.player.state = state.Restore(s.graphs[s.at], rows)
		} else {
			s.at = 0
		}
	}
	for ; s.at < n; s.at++ {
		s.keepState()
		if err := s.player.applyRecord(&s.records[s.at]); err != nil {
			return err
		}
	}
	return nil
}

// keepState keeps the state at a multiple of every, and gives up every second one where they become too many. It is called before
// each record is played, also one that is shown: whoever steps forward passes every state so.
func (s *Stepper) keepState() {
	if s.at%s.every != 0 || s.at == 0 || s.graphs[s.at] != nil {
		return
	}
	s.kept[s.at], s.graphs[s.at] = s.player.state.AllRows(), s.player.state.Graph
	if len(s.kept) > maxKept {
		s.every *= 2
		for at := range s.kept {
			if at%s.every != 0 {
				delete(s.kept, at)
				delete(s.graphs, at)
			}
		}
	}
}

// frameOf returns a run as it stands.
//
// A group without a name is never joined, and so gathers for
// ever: it is left out when nothing lives in it any more.
func frameOf(s *state.State) *Frame {
	f := &Frame{Run: s.Run, Status: s.Status, State: s.Section(state.SectionState), Output: s.Output, Failure: s.Failure, Alarm: s.Alarm()}
	for _, id := range s.LiveTokens() {
		t := s.Token(id)
		f.Tokens = append(f.Tokens, FrameToken{ID: id, Place: placeOf(s, t), Status: t.Status, Attempt: t.Attempt, Due: t.Alarm()})
	}
	for id := workflow.GroupID(1); id < s.NextGroup; id++ {
		g := s.Group(id)
		if g.Phase == workflow.Gathering && (g.Name != "" || g.Live > 0) {
			f.Groups = append(f.Groups, FrameGroup{
				ID: id, Name: g.Name, Place: string(g.Node) + branchText(s, g.Scope), Total: g.Total, Arrived: g.Arrived, Ended: g.Ended, Failed: g.Failed,
			})
		}
	}
	return f
}
