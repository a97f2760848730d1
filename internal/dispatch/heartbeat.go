package dispatch

import (
	"time"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/taskkey"
)

// The times within which heartbeats are merged.
const (
	maxMerge     = 10 * time.Second
	defaultMerge = time.Second // of a node without a heartbeat
)

// A pulse is what the dispatcher knows of the heartbeats of an attempt.
type pulse struct {
	last    time.Time // when one was sent to the run
	sending bool
	waits   bool // one came since, and is sent later
	details any  // that wait with it; nil if none do
	timer   *time.Timer
}

// keepPulse returns the pulse of an attempt, which has one from its first heartbeat on.
func (t *Task) keepPulse() *pulse {
	if t.pulse == nil {
		t.pulse = new(pulse)
	}
	return t.pulse
}

func (p *pulse) stopTimer() {
	if p != nil && p.timer != nil {
		p.timer.Stop()
	}
}

// waitingDetails returns the details that wait; nil if none do.
func (p *pulse) waitingDetails() any {
	if p == nil {
		return nil
	}
	return p.details
}

// isOver reports whether nobody has anything to tell of an attempt any more: it is not
// wanted, or has a result.
func (t *Task) isOver() bool { return t.withdrawn || t.delivers && !t.pending }

// mergeTime returns how long heartbeats of an attempt are merged.
func (t *Task) mergeTime() time.Duration {
	if t.Node.Heartbeat <= 0 {
		return defaultMerge
	}
	return min(t.Node.Heartbeat/10, maxMerge)
}

// MergeHeartbeat takes a heartbeat that is sent later, with those that follow it. A heartbeat
// that is to be sent now has the details that wait, unless it has newer ones: call
// HeartbeatSent then. The run answers for an attempt that the dispatcher does not hold.
func (d *Dispatcher) MergeHeartbeat(a taskkey.Attempt, details any) (merged bool, send any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.heldAttempt(a)
	if t == nil || t.isOver() || d.stopped {
		return false, details
	}
	p := t.keepPulse()
	if details == nil {
		details = p.details
	}
	if !p.sending && !p.waits && time.Since(p.last) >= t.mergeTime() {
		p.sending, p.last, p.details = true, time.Now(), nil
		return false, details
	}
	p.details = details
	if !p.waits {
		p.waits = true
		p.timer = time.AfterFunc(t.mergeTime()-time.Since(p.last), func() { d.sendMerged(t) })
	}
	return true, nil
}

// HeartbeatSent notes that the run has answered a heartbeat. Details that it did not
// take are told with the next.
func (d *Dispatcher) HeartbeatSent(a taskkey.Attempt, details any, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.heldAttempt(a)
	if t == nil {
		return
	}
	p := t.keepPulse()
	p.sending = false
	if err == nil {
		return
	}
	p.last = time.Time{}
	if p.details == nil {
		p.details = details
	}
}

// sendMerged sends what the merged heartbeats of an attempt come to.
func (d *Dispatcher) sendMerged(t *Task) {
	d.mu.Lock()
	p := t.pulse
	if !t.held || t.isOver() || d.stopped || !p.waits {
		d.mu.Unlock()
		return
	}
	if p.sending { // the one before still waits for its answer
		p.timer.Reset(t.mergeTime())
		d.mu.Unlock()
		return
	}
	details := p.takeMerged()
	d.group.Add(1)
	d.mu.Unlock()
	defer d.group.Done()
	err := d.o.Host.Ask(t.Run, t.heartbeat(details))
	d.HeartbeatSent(AttemptOf(&t.Dispatch), details, err)
}

// takeMerged returns the details that wait, which are being sent.
func (p *pulse) takeMerged() any {
	details := p.details
	p.details, p.waits, p.sending, p.last = nil, false, true, time.Now()
	return details
}

func (t *Task) heartbeat(details any) state.Message {
	return state.Heartbeat{Token: t.Token, Attempt: t.Attempt, Epoch: t.Epoch, Details: details}
}

// flushHeartbeats sends, as the engine closes, the details that wait. The caller holds
// the lock; StopAndWait waits until they are sent.
func (d *Dispatcher) flushHeartbeats() {
	for t := range d.allHeld {
		if t.pulse.waitingDetails() == nil || t.isOver() {
			continue
		}
		m := t.heartbeat(t.pulse.takeMerged())
		t.pulse.stopTimer()
		d.group.Go(func() { _ = d.o.Host.Ask(t.Run, m) }) // whom could it tell?
	}
}

// WithDetails adds the details that wait to the message that ends their attempt without
// a result.
func (d *Dispatcher) WithDetails(a taskkey.Attempt, m state.Message) state.Message {
	switch m := m.(type) {
	case state.TaskFailed:
		m.Details = d.detailsOf(a, m.Details)
		return m
	case state.TaskSnoozed:
		m.Details = d.detailsOf(a, m.Details)
		return m
	default:
		return m
	}
}

// detailsOf returns the details of an attempt that wait; known if it is not held.
func (d *Dispatcher) detailsOf(a taskkey.Attempt, known any) any {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.heldAttempt(a); t != nil {
		return t.pulse.waitingDetails()
	}
	return known
}
