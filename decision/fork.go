package decision

import (
	"time"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// ForkRun turns the state of a run, as its records up to one of them made it, into that of
// another run, which goes on by itself: it has no parent, and every deadline in it is later by
// the time that has passed since that record.
//
// It is the first decision of the record that makes the fork; the records before it are those
// of the other run. The decisions that follow deal with the tasks and children that are out
// there.
type ForkRun struct {
	Run   workflow.RunID     `json:"run"` // the fork
	From  workflow.ForkPoint `json:"from"`
	Shift time.Duration      `json:"shift,omitzero"` // how much later
	Trace *state.Trace       `json:"trace,omitzero"` // of the fork; nil without
}

// String implements fmt.Stringer.
func (d ForkRun) String() string {
	l := newLine("fork-run").addField("run", string(d.Run)).addField("from", string(d.From.Run)).addValue("record", d.From.Record)
	if d.Shift != 0 {
		l.addField("shift", d.Shift.String())
	}
	return l.String()
}

func (d ForkRun) evolveState(s *state.State) {
	s.Run, s.ForkedFrom, s.Parent, s.ParentPauses, s.Trace = d.Run, d.From, nil, false, d.Trace
	if d.Shift == 0 {
		return
	}
	// Everything that waits for time moves by the same, so that what was ahead of it stays
	// ahead of it: a timer with 5 minutes left has 5 minutes left in the fork. StartedAt
	// moves too, because a patch of the run's timeout and the events of a time-out reckon
	// from it.
	s.StartedAt, s.Due = shifted(s.StartedAt, d.Shift), shifted(s.Due, d.Shift)
	for _, id := range s.LiveTokens() {
		if t := *s.Token(id); !t.Alarm().IsZero() {
			t.Due, t.Beat = shifted(t.Due, d.Shift), shifted(t.Beat, d.Shift)
			s.PutToken(&t)
		}
	}
	for id := workflow.GroupID(1); id < s.NextGroup; id++ {
		if g := *s.Group(id); !g.Due.IsZero() {
			g.Due = shifted(g.Due, d.Shift)
			s.PutGroup(&g)
		}
	}
	for id := state.SignalID(1); id < s.NextSignal; id++ {
		if k := s.Signal(id); k != nil && !k.Done && !k.Due.IsZero() {
			later := *k
			later.Due = shifted(k.Due, d.Shift)
			s.PutSignal(&later)
		}
	}
}

// shifted returns an instant that is so much later, or never if t is that. Instants end at timeout.Far, for which older definitions
// may wait.
func shifted(t time.Time, d time.Duration) time.Time {
	if t.IsZero() {
		return t
	}
	return timeout.Earliest(t.Add(d), timeout.Far)
}

func (d ForkRun) toldEvents(*state.State) []Event {
	return []Event{{Type: workflow.EventWorkflowForked, Data: map[string]any{"run": string(d.From.Run), "record": d.From.Record}}}
}

func (ForkRun) withdrawnTokens(*state.State) []workflow.TokenID { return nil }
