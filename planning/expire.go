package planning

import (
	"fmt"
	"time"

	"github.com/pawl-run/pawl/workflow"
)

// expire lets everything happen that is due by now, or by the instant for which
// the alarm was armed, in order of time and token. It is then at least that
// instant, whatever the clock says: nothing that begins here is due at once.
func (p *planner) expire(armed time.Time) {
	if armed.After(p.now) {
		p.now = armed
	}
	for !p.stopped() {
		items := p.s.DueBy(p.now)
		if len(items) == 0 {
			break
		}
		for _, it := range items {
			if p.runExpires(it.At) {
				return
			}
			p.expireItem(it)
			p.drain()
		}
	}
	p.runExpires(p.now.Add(1))
}

// runExpires ends the run if its time was up before at.
func (p *planner) runExpires(at time.Time) bool {
	if p.stopped() || p.s.Due.IsZero() || !p.s.Due.Before(at) {
		return false
	}
	p.expireRun()
	return true
}

// expireItem lets time change one token or group, if it still waits for it.
func (p *planner) expireItem(it workflow.Item) {
	if p.stopped() {
		return
	}
	if it.Token == 0 {
		if g := p.s.Group(it.Group); g.Phase == workflow.Gathering && g.Due.Equal(it.At) {
			p.joinTimeout(g)
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
		p.again(t)
	case workflow.WaitingForApproval:
		p.approvalTimeout(t, n)
	case workflow.WaitingForTimer, workflow.WaitingForEvent:
		if it.At.Equal(t.Due) {
			p.complete(t, completion{output: timerOutput()})
			return
		}
		p.fail(t, &workflow.Failure{Code: workflow.CodeTimeout, Message: fmt.Sprintf("not over within %v", n.Timeout)}, true)
	case workflow.WaitingForChild:
		p.fail(t, &workflow.Failure{Code: workflow.CodeTimeout, Message: fmt.Sprintf("the child did not end within %v", n.Timeout)}, true)
	case workflow.Dispatched:
		if it.At.Equal(t.Due) {
			p.fail(t, &workflow.Failure{Code: workflow.CodeTimeout, Message: fmt.Sprintf("no result within %v", n.Timeout)}, true)
			return
		}
		p.fail(t, &workflow.Failure{Code: workflow.CodeHeartbeatTimeout, Message: fmt.Sprintf("no heartbeat within %v", n.Heartbeat)}, true)
	default:
		panic(fmt.Sprintf("planning: %v is %v and has an alarm", t.ID, t.Status))
	}
}

// joinTimeout ends the wait of a group's join.
func (p *planner) joinTimeout(g *workflow.Group) {
	sync := p.syncOf(g)
	if sync.OnTimeout == workflow.TimeoutProceed {
		p.fire(g, firing{timedOut: true})
		return
	}
	p.failGroup(g.ID, &workflow.Failure{
		Code: workflow.CodeJoinTimeout, Permanent: true,
		Message: fmt.Sprintf("%d of %d branches of %q arrived within %v of the first", g.Arrived, g.Total, g.Name, sync.Timeout),
	}, firing{timedOut: true})
}
