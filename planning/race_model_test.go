package planning_test

import (
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A raceModel says by itself what becomes of the join of a race.
type raceModel struct {
	run      workflow.RunStatus
	branches []*raceBranch
	phase    string        // of the group: "", fired, failed, abandoned
	got      []int         // the branches with which the join fired
	timed    bool          // its join has a timeout
	clock    time.Duration // since the beginning
	due      time.Duration // the timeout of the join; 0: none runs
	kept     int           // events
	patched  bool          // its definition
}

// A raceBranch is one branch: what it waits for (out, retry, parked, held, event,
// timer, people, child), or arrived, ended, failed.
type raceBranch struct {
	kind, state string
	cause       string        // of its end
	again       bool          // a later attempt than that of the race is out
	late        bool          // added; its time comes later
	snoozes     bool          // it has asked to be called again
	due         time.Duration // when it is, if it snoozes
}

func (b *raceBranch) resolved() bool {
	return b.state == "arrived" || b.state == "ended" || b.state == "failed"
}

// take says how a message is answered, and what it does.
func (m *raceModel) take(r racer, b int) verdict {
	msg := r.make(&state.Token{}, dawn)
	_, starts := msg.(state.Start)
	_, forks := msg.(state.RunForked)
	_, cancels := msg.(state.Cancel)
	_, resumes := msg.(state.Resume)
	switch {
	case starts, forks && !m.run.Final():
		return refusePatch(state.ErrRunExists)
	case m.run == workflow.RunSuspended && !cancels && !resumes:
		return refusePatch(state.ErrSuspended)
	case !m.run.Final():
		return r.does(m, b)
	}
	_, stall := msg.(state.Stall)
	_, grown := msg.(state.RunGrown)
	if _, alarm := msg.(state.AlarmFired); alarm || cancels || stall || grown {
		return ignored
	}
	if state.Messages.Kind(msg) == "Heartbeat" || strings.HasPrefix(state.Messages.Kind(msg), "Task") {
		return r.does(m, b) // of a key: it is stale, or was taken before
	}
	return refusePatch(state.ErrEnded)
}

// arrive ends a branch well.
func (m *raceModel) arrive(b int, cause string) verdict {
	m.branches[b].state, m.branches[b].cause = "arrived", cause
	if m.timed && m.due == 0 {
		m.due = m.clock + joinDue
	}
	return accepted
}

func (m *raceModel) number(state string) int {
	n := 0
	for _, b := range m.branches {
		if b.state == state {
			n++
		}
	}
	return n
}

// settle decides the group.
func (m *raceModel) settle() {
	open := slices.ContainsFunc(m.branches, func(b *raceBranch) bool { return !b.resolved() })
	switch {
	case m.phase != "" || m.run.Final():
	case m.number("failed") > 0:
		m.over("failed")
	case open:
	case m.number("arrived") > 0:
		m.over("fired")
	default:
		m.over("abandoned")
		m.end(workflow.RunCompleted) // nothing else is in it
	}
}

// over ends the group: what still runs in it is cancelled.
func (m *raceModel) over(phase string) {
	m.phase, m.got = phase, []int{}
	for i, b := range m.branches {
		if b.state == "arrived" {
			m.got = append(m.got, i)
		}
		if !b.resolved() {
			b.state = "ended"
		}
	}
}

func (m *raceModel) end(status workflow.RunStatus) {
	m.run = status
	for _, b := range m.branches {
		if !b.resolved() {
			b.state = "ended"
		}
	}
}

func (m *raceModel) completed(b int) verdict {
	switch x := m.branches[b]; {
	case x.state == "out" && !x.again:
		return m.arrive(b, "completed")
	case x.cause == "completed":
		return ignored
	}
	return refusePatch(state.ErrStale)
}

func (m *raceModel) failed(b int) verdict {
	switch x := m.branches[b]; {
	case x.state == "out" && !x.again:
		x.state, x.cause = "failed", "failed"
		return accepted
	case x.cause == "failed", (x.kind == "retry" || x.kind == "parked") && x.state == x.kind:
		return ignored // this attempt has failed before
	}
	return refusePatch(state.ErrStale)
}

func (m *raceModel) snoozed(b int) verdict {
	switch x := m.branches[b]; {
	case x.state == "out" && !x.again:
		x.state, x.snoozes, x.due = "retry", true, m.clock+snoozeDue
		return accepted
	case x.state == "retry" && x.snoozes:
		return ignored // this attempt has asked before
	}
	return refusePatch(state.ErrStale)
}

// alarm lets happen what is due by an instant: tasks that snooze are called again, and
// the timeout of the join, which runs from the first arrival, comes before the timers.
func (m *raceModel) alarm(at time.Duration) verdict {
	m.clock = max(m.clock, at)
	for _, b := range m.branches {
		if b.state != "retry" || !b.snoozes || b.due > m.clock {
			continue
		}
		b.state, b.again = "out", true
		if m.run == workflow.RunPaused {
			b.state = "held"
		}
	}
	if m.phase == "" && m.due > 0 && m.due <= m.clock {
		m.over("fired")
	}
	for i, b := range m.branches {
		if b.state == "timer" && !b.late && timerDue <= m.clock {
			m.arrive(i, "time")
		}
	}
	return accepted
}

// signal gives the event to the branch that has waited longest.
func (m *raceModel) signal(int) verdict {
	for i, b := range m.branches {
		if b.state == "event" {
			return m.arrive(i, "signal")
		}
	}
	m.kept++
	return accepted
}

func (m *raceModel) pause(int) verdict {
	if m.run == workflow.RunPaused {
		return ignored
	}
	m.run = workflow.RunPaused
	return accepted
}

func (m *raceModel) resume(int) verdict {
	if m.run == workflow.RunRunning {
		return refusePatch(state.ErrNotLive)
	}
	m.run = workflow.RunRunning
	for _, b := range m.branches {
		if b.state == "held" {
			b.state = "out"
		}
	}
	return accepted
}

// addBranch adds one like the first.
func (m *raceModel) addBranch(int) verdict {
	if m.phase != "" {
		return refusePatch(state.ErrGroupClosed)
	}
	b := &raceBranch{kind: m.branches[0].kind, late: true}
	m.branches = append(m.branches, b)
	switch b.state = b.kind; {
	case b.kind == "event" && m.kept > 0:
		m.kept--
		m.arrive(len(m.branches)-1, "signal")
	case m.run == workflow.RunPaused && (b.kind == "task" || b.kind == "retry" || b.kind == "parked" || b.kind == "child"):
		b.state = "held"
	case b.kind == "task", b.kind == "retry", b.kind == "parked":
		b.state = "out"
	}
	return accepted
}

// closeGroup fires the join with what has arrived.
func (m *raceModel) closeGroup(int) verdict {
	if m.phase != "" {
		return refusePatch(state.ErrGroupClosed)
	}
	m.over("fired")
	return accepted
}

// cancelNodes ends the branch, and one that was added as it: they are at one
// node.
func (m *raceModel) cancelNodes(b int) verdict {
	v := refusePatch(state.ErrNotLive)
	for i, x := range m.branches {
		if (i == b || b == 0 && i > 2) && !x.resolved() {
			x.state, v = "ended", accepted
		}
	}
	return v
}

func (m *raceModel) retry(b int) verdict {
	x := m.branches[b]
	if x.state != "retry" && x.state != "parked" {
		return refusePatch(state.ErrNotLive)
	}
	x.state, x.again = "out", true
	if m.run == workflow.RunPaused {
		x.state = "held"
	}
	return accepted
}

func (m *raceModel) skip(b int) verdict {
	switch m.branches[b].state {
	case "out", "retry", "parked":
		return m.arrive(b, "skipped")
	}
	return refusePatch(state.ErrNotLive)
}
