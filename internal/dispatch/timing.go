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
		t.returned.Store(int64(instantOf(now)))
	}
}

// CountEnds counts the attempts of a run whose ends a commit has told, and the run if it has ended and was not cancelled. An attempt that
// the dispatcher does not hold, such as one whose result comes with Maintenance, is not counted.
func (d *Dispatcher) CountEnds(s *state.State, records []decision.Record, told []decision.Told) {
	var room [4]attemptEnd
	ends := room[:0]
	for i := range told {
		e, failed := told[i].Bare(), true
		switch e.Type {
		case workflow.EventTaskCompleted, workflow.EventTaskSnoozed:
			failed = false
			fallthrough
		case workflow.EventTaskFailed, workflow.EventTaskRetrying, workflow.EventTaskParked:
			ends = append(ends, attemptEnd{token: e.Token, times: timing.Attempt{Failed: failed, Reported: amount.Of(reportOf(records, e), s.MetaLimits()...)}})
		case workflow.EventWorkflowCompleted, workflow.EventWorkflowFailed, workflow.EventWorkflowTimedOut:
			d.o.Timings.Count(timing.Attempt{
				Of: timing.Name{Workflow: s.Graph.Definition.Name}, At: s.EndedAt, Worked: s.EndedAt.Sub(s.StartedAt), Begun: true, Failed: e.Type != workflow.EventWorkflowCompleted,
			})
		default: // nothing has ended
		}
	}
	if len(ends) == 0 {
		return
	}
	d.heldMu.Lock()
	for i := range ends {
		d.timeEnd(s.Run, &ends[i])
	}
	d.heldMu.Unlock()
	for i := range ends {
		if ends[i].counts {
			d.o.Timings.Count(ends[i].times)
		}
	}
}

// An attemptEnd is the end of a token's attempt, which counts once.
type attemptEnd struct {
	token  workflow.TokenID
	times  timing.Attempt
	counts bool
}

// timeEnd sets the times of an attempt that has just ended, if it is held and has not counted. The caller holds heldMu.
func (d *Dispatcher) timeEnd(run workflow.RunID, end *attemptEnd) {
	if t := d.newestAttempt(run, end.token); t != nil && !t.timed {
		t.timed, end.counts = true, true
		t.setTimes(&end.times, d.o.Hook)
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

// A clock tells the time; *testhook.Hook does.
type clock interface{ Now() time.Time }

// setTimes sets how long an attempt that has just ended has waited and was worked on.
func (t *Task) setTimes(of *timing.Attempt, now clock) {
	ended := instant(t.returned.Load())
	if ended == 0 {
		ended = instantOf(now.Now())
	}
	of.Of, of.At = timing.Name{Workflow: t.Workflow.Name, Node: string(t.Node.ID), Type: t.Task}, ended.asTime()
	began := instant(t.performed.Load())
	if of.Begun = began != 0; !of.Begun {
		began = ended // nobody has begun
	}
	of.Queued = time.Duration(began-t.queued) * time.Microsecond
	of.Worked = time.Duration(ended-began) * time.Microsecond
}

// Loads returns what there is to do, by task type, in no order.
func (d *Dispatcher) Loads() []history.TypeLoad {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(d.stands.loads(instantOf(d.o.Hook.Now())), func(l history.TypeLoad) bool {
		return l.Waiting+l.Running+l.Pending == 0
	})
}
