package planning

import (
	"fmt"
	"time"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// expireDue lets everything happen that is due by now, or by the instant for which
// the alarm was armed, in order of time and token. It is then at least that
// instant, whatever the clock says: nothing that begins here is due at once.
//
// A clock that was set back must not make an alarm fire again and again without effect, which
// is why the armed instant counts. After a downtime everything that has become due meanwhile
// happens, each once.
func (p *planner) expireDue(armed time.Time) {
	if armed.After(p.now) {
		p.now = armed
	}
	for !p.hasStopped() {
		// Asked again until nothing is due: what happens may bring about more that is.
		items := p.s.DueBy(p.now)
		if len(items) == 0 {
			break
		}
		for _, it := range items {
			// The run's own timeout comes in its place among the items: what was due before
			// it still happened.
			if p.expireRunBefore(it.At) {
				return
			}
			p.expireItem(it)
			// Each item is followed by all that it brings about, so that the next one finds
			// it done: a timer that completes the last branch lets the join fire before its
			// timeout at the same instant.
			p.drainWork()
		}
	}
	p.expireRunBefore(p.now.Add(1))
}

// expireRunBefore ends the run if its time was up before at. Timers that are due at the very
// instant of the run's timeout come first; called with an instant just after now, it ends a
// run whose time is up now.
func (p *planner) expireRunBefore(at time.Time) bool {
	if p.hasStopped() || p.s.Due.IsZero() || !p.s.Due.Before(at) {
		return false
	}
	p.expireRun()
	return true
}

// expireItem lets time change one token or group, if it still waits for it.
//
// An item before it may have ended the token, or given it another deadline; it is then left
// alone. If Due and Beat of a token fall together, Due decides: the time-out of an attempt
// before its heartbeat, and the timer of a wait before its time-out.
func (p *planner) expireItem(it state.Item) {
	if p.hasStopped() {
		return
	}
	if it.Token == 0 {
		if g := p.s.Group(it.Group); g.Phase == workflow.Gathering && g.Due.Equal(it.At) {
			p.joinTimedOut(g)
		}
		return
	}
	t := p.s.Token(it.Token)
	if !t.Live() || !t.Alarm().Equal(it.At) {
		return
	}
	n := p.s.Graph.Node(t.Node)
	switch t.Status {
	case workflow.Retrying:
		p.beginNextAttempt(t)
	case workflow.WaitingForApproval:
		p.approvalTimedOut(t, n)
	case workflow.WaitingForTimer, workflow.WaitingForEvent:
		if it.At.Equal(t.Due) {
			p.completeNode(t, completion{output: timerOutput()})
			return
		}
		p.failAttempt(t, &workflow.Failure{Code: workflow.CodeTimeout, Message: p.tellLimit("not over", n.Timeout)}, true)
	case workflow.WaitingForChild:
		p.failAttempt(t, &workflow.Failure{Code: workflow.CodeTimeout, Message: p.tellLimit("the child did not end", n.Timeout)}, true)
	case workflow.Dispatched:
		if it.At.Equal(t.Due) {
			p.failAttempt(t, &workflow.Failure{Code: workflow.CodeTimeout, Message: p.tellLimit("no result", n.Timeout)}, true)
			return
		}
		p.failAttempt(t, &workflow.Failure{Code: workflow.CodeHeartbeatTimeout, Message: p.tellLimit("no heartbeat", n.Heartbeat)}, true)
	default:
		panic(fmt.Sprintf("planning: %v is %v and has an alarm", t.ID, t.Status))
	}
}

// tellLimit says what did not happen within a limit of a node. A patch may have removed the limit
// since it was set: then nobody knows any more how long it was.
func (p *planner) tellLimit(missed string, limit time.Duration) string {
	if limit == 0 && p.planLike() >= 6 {
		return missed + " in time"
	}
	return fmt.Sprintf("%s within %v", missed, limit)
}
