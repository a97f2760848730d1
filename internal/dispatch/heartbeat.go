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
	waits   bool    // one came since, and is sent later
	details Details // that wait with it; the zero value if none do
	timer   *time.Timer
}

// Details say how far an attempt is.
type Details struct {
	Value any    // nil leaves those before
	Unpin func() // lets the blobs go that they refer to; nil if there are none
}

func (d Details) unpinBlobs() {
	if d.Unpin != nil {
		d.Unpin()
	}
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
	return p.details.Value
}

// dropDetails drops the details that wait.
func (p *pulse) dropDetails() {
	if p != nil {
		p.details.unpinBlobs()
		p.details = Details{}
	}
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
// HeartbeatSent then. The blobs of the details stay pinned until they are sent, or dropped. The
// run answers for an attempt that the dispatcher does not hold.
func (d *Dispatcher) MergeHeartbeat(a taskkey.Attempt, details Details) (merged bool, send Details) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.heldAttempt(a)
	if t == nil || t.isOver() || d.stopped {
		return false, details
	}
	p := t.keepPulse()
	if details.Value == nil {
		details.unpinBlobs()
		details, p.details = p.details, Details{}
	}
	p.dropDetails()
	if !p.sending && !p.waits && time.Since(p.last) >= t.mergeTime() {
		p.sending, p.last = true, time.Now()
		return false, details
	}
	p.details = details
	if !p.waits {
		p.waits = true
		p.timer = time.AfterFunc(t.mergeTime()-time.Since(p.last), func() { d.sendMerged(t) })
	}
	return true, Details{}
}

// HeartbeatSent notes that the run has answered a heartbeat. Details that it did not
// take are told with the next.
func (d *Dispatcher) HeartbeatSent(a taskkey.Attempt, details Details, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.heldAttempt(a); t != nil {
		p := t.keepPulse()
		p.sending = false
		if err != nil {
			p.last = time.Time{}
			if p.details.Value == nil {
				details, p.details = Details{}, details
			}
		}
	}
	details.unpinBlobs()
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
	err := d.o.Host.Ask(t.Run, t.heartbeat(details.Value))
	d.HeartbeatSent(AttemptOf(&t.Dispatch), details, err)
}

// takeMerged returns the details that wait, which are being sent.
func (p *pulse) takeMerged() Details {
	details := p.details
	p.details, p.waits, p.sending, p.last = Details{}, false, true, time.Now()
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
		details := t.pulse.takeMerged()
		t.pulse.stopTimer()
		d.group.Go(func() {
			defer details.unpinBlobs()
			_ = d.o.Host.Ask(t.Run, t.heartbeat(details.Value)) // whom could it tell?
		})
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
