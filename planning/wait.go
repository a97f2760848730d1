package planning

import (
	"fmt"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// beginWait lets a token wait for a timer, an event, or whichever of several comes
// first: an event that is kept, and then a timer that is past, end it at once.
//
// A signal that was sent before the token came is thus taken, also by a wait whose timer is
// past: what has happened comes before what is due. The wait counts as an attempt, so that
// its timeout may be retried.
func (p *planner) beginWait(t *state.Token, n *compiled.Node, v vars) {
	names := n.Events()
	if p.takeKept(t, n, names, v) {
		return
	}
	due, past, f := p.waitDue(n, v)
	switch {
	case f != nil:
		p.failAttempt(t, f, false)
		return
	case past:
		p.completeNode(t, completion{output: timerOutput()})
		return
	}
	limit := timeout.Deadline(p.now, n.Timeout)
	// A wait for time alone needs the result if it is retried or patched, when until is evaluated
	// once more. Up to version 5 one without retry did not keep it, which is not the same as null.
	if len(names) == 0 {
		if n.AsksResult && v.result == nil && t.Remembered().Kept == nil && p.planLike() >= 6 {
			p.decide(decision.KeepResult{Token: t.ID})
		}
		d := decision.AwaitTimer{Token: t.ID, Attempt: t.Attempt + 1, Due: due, Limit: limit}
		if n.AsksResult && (n.Node.Retry != nil || p.planLike() >= 6) {
			d.Result = v.result
		}
		p.decide(d)
		return
	}
	// An event that comes later is matched against the result, so that it is kept if anything
	// asks for it.
	d := decision.AwaitEvent{Token: t.ID, Attempt: t.Attempt + 1, Names: names, Due: due, Limit: limit}
	if n.AsksResult {
		d.Result = v.result
	}
	p.decide(d)
}

// waitDue returns the earliest timer of a wait node, zero if it has none, and whether it is
// past. All timers of the node are evaluated, because the earliest decides. A for counts from
// now and lies ahead; an until may be past, and then the wait is over at once.
func (p *planner) waitDue(n *compiled.Node, v vars) (due time.Time, past bool, f *workflow.Failure) {
	for i := range n.Waits {
		w := &n.Waits[i]
		at := timeout.Deadline(p.now, w.For)
		if w.Until != nil {
			if f := p.overBudget(); f != nil {
				return due, false, f
			}
			x, err := w.Until.EvalTime(v)
			if err != nil {
				return due, false, evalFailure(w.Until, err)
			}
			if p.planLike() >= 3 && x.Sub(p.now) > timeout.MaxWait {
				return due, false, evalFailure(w.Until, fmt.Errorf("%s is more than 200 years ahead; for something that never comes, wait for an event", x.Format(time.RFC3339)))
			}
			at = timeout.Instant(x)
			past = past || !at.After(p.now)
		}
		due = timeout.Earliest(due, at)
	}
	return due, past, nil
}

// timerOutput is the output of a wait that a timer ended.
func timerOutput() map[string]any { return map[string]any{"cause": "timer"} }

// eventOutput is the output of a wait that an event ended.
func eventOutput(name string, payload any) map[string]any {
	return map[string]any{"cause": "event", "event": name, "payload": payload}
}
