package dispatch

import (
	"slices"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/timing"
	"github.com/pawl-run/pawl/workflow"
)

// noteTime notes when the handler of an attempt has returned, unless the result comes later. The caller holds the lock.
func (t *Task) noteTime(now time.Time) {
	if !t.pending && !t.pooled {
		t.returned = instantOf(now)
	}
}

// CountEnds counts the attempts of a run whose ends a commit has told, and the run if it has ended and was not cancelled. An attempt that
// the dispatcher does not hold, such as one whose result comes with Maintenance, is not counted.
func (d *Dispatcher) CountEnds(s *state.State, records []decision.Record, told []decision.Told) {
	for i := range told {
		switch e := told[i].Bare(); e.Type {
		case workflow.EventTaskCompleted, workflow.EventTaskSnoozed:
			d.countEnd(s, e.Token, reportOf(records, e), false)
		case workflow.EventTaskFailed, workflow.EventTaskRetrying, workflow.EventTaskParked:
			d.countEnd(s, e.Token, reportOf(records, e), true)
		case workflow.EventWorkflowCompleted, workflow.EventWorkflowFailed, workflow.EventWorkflowTimedOut:
			d.o.Timings.Count(timing.Attempt{
				Of: timing.Name{Workflow: s.Graph.Definition.Name}, At: s.EndedAt, Worked: s.EndedAt.Sub(s.StartedAt), Begun: true, Failed: e.Type != workflow.EventWorkflowCompleted,
			})
		default: // nothing has ended
		}
	}
}

// reportOf returns the metadata of the attempt whose end an event tells; nil if no result has ended it.
func reportOf(records []decision.Record, e *decision.Event) map[string]any {
	i := int(e.Record - records[0].Seq)
	if i < 0 || i >= len(records) {
		return nil
	}
	if token, metadata := state.MetadataOf(records[i].Message); token == e.Token {
		return metadata
	}
	return nil
}

// countEnd counts the end of a token's attempt that is out, once.
func (d *Dispatcher) countEnd(s *state.State, token workflow.TokenID, metadata map[string]any, failed bool) {
	d.mu.Lock()
	t := d.newestAttempt(s.Run, token)
	if t == nil || t.timed {
		d.mu.Unlock()
		return
	}
	t.timed = true
	a := t.timesAt(d.o.Hook)
	d.mu.Unlock()
	a.Failed, a.Reported = failed, amount.Of(metadata, s.MetaLimits()...)
	d.o.Timings.Count(a)
}

// A clock tells the time; *testhook.Hook does.
type clock interface{ Now() time.Time }

// timesAt returns how long an attempt that has just ended has waited and was worked on. The caller holds the lock.
func (t *Task) timesAt(now clock) timing.Attempt {
	ended := t.returned
	if ended == 0 {
		ended = instantOf(now.Now())
	}
	a := timing.Attempt{Of: timing.Name{Workflow: t.Workflow.Name, Node: string(t.Node.ID), Type: t.Task}, At: ended.asTime()}
	began := instant(t.performed.Load())
	if a.Begun = began != 0; !a.Begun {
		began = ended // nobody has begun
	}
	a.Queued = time.Duration(began-t.queued) * time.Microsecond
	a.Worked = time.Duration(ended-began) * time.Microsecond
	return a
}

// Loads returns what there is to do, by task type, in no order.
func (d *Dispatcher) Loads() []history.TypeLoad {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(d.stands.loads(instantOf(d.o.Hook.Now())), func(l history.TypeLoad) bool {
		return l.Waiting+l.Running+l.Pending == 0
	})
}
