package pawl

import (
	"context"
	"time"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/taskkey"
	"github.com/pawl-run/pawl/internal/value"
)

// MaxDetails bounds the details of a heartbeat, in bytes of JSON.
const MaxDetails = 16 << 10

// Heartbeat says that an attempt is alive and, with details, how far it is: anything
// that JSON can say, up to MaxDetails; nil leaves the details as they are. The last
// ones are Task.Details of the next attempt, and Inspect shows them.
//
// Heartbeats of one attempt within a tenth of its node's heartbeat (at most 10 s; 1 s
// where the node has none) are merged: the first is committed at once, the others
// together at the end of that time. The last details are committed with the error or
// the Snooze of the attempt, and when the engine closes; a crash, or a timeout of the
// attempt, may lose those of the last such time.
//
// Errors: ErrStale (the attempt is no longer wanted), ErrInvalid (details that are not
// JSON), also *workflow.LimitError (details that are too large), *blob.Error (details
// refer to a missing blob).
func (e *Engine) Heartbeat(ctx context.Context, key Key, details any) error {
	if err := e.checkUsable(ctx); err != nil {
		return err
	}
	a, err := e.parseKey(key)
	if err != nil {
		return err
	}
	if details, err = value.Normalize(details, value.Limits{Bytes: MaxDetails}); err != nil {
		return invalidValue("the details of a heartbeat", err)
	}
	release, err := e.pinReferences(ctx, details)
	if err != nil {
		return err
	}
	defer release()
	merged, details := e.dispatcher.mergeHeartbeat(a, details)
	if !merged {
		err = (&deed{engine: e, run: a.Run}).report(ctx, state.Heartbeat{Token: a.Token, Attempt: a.Number, Epoch: a.Epoch, Details: details})
		e.dispatcher.heartbeatSent(a, details, err)
	}
	if err == nil {
		e.stalls.noteHeartbeat(a.Run)
	}
	return err
}

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

func (p *pulse) stopTimer() {
	if p.timer != nil {
		p.timer.Stop()
	}
}

// isOver reports whether nobody has anything to tell of an attempt any more: it is not
// wanted, or has a result.
func (t *outTask) isOver() bool { return t.withdrawn || t.delivers && !t.pending }

// mergeTime returns how long heartbeats of an attempt are merged.
func (t *outTask) mergeTime() time.Duration {
	if t.Node.Heartbeat <= 0 {
		return defaultMerge
	}
	return min(t.Node.Heartbeat/10, maxMerge)
}

// mergeHeartbeat takes a heartbeat that is sent later, with those that follow it. One
// that is to be sent now has the details that wait, unless it has newer ones: call
// heartbeatSent then. The run answers for an attempt that the dispatcher does not hold.
func (d *dispatcher) mergeHeartbeat(a taskkey.Attempt, details any) (merged bool, send any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.heldAttempt(a)
	if t == nil || t.isOver() || d.stopped {
		return false, details
	}
	p := &t.pulse
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

// heartbeatSent notes that the run has answered a heartbeat. What it did not take is
// told with the next.
func (d *dispatcher) heartbeatSent(a taskkey.Attempt, details any, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.heldAttempt(a)
	if t == nil {
		return
	}
	t.pulse.sending = false
	if err == nil {
		return
	}
	t.pulse.last = time.Time{}
	if t.pulse.details == nil {
		t.pulse.details = details
	}
}

// sendMerged sends what the merged heartbeats of an attempt come to.
func (d *dispatcher) sendMerged(t *outTask) {
	d.mu.Lock()
	p := &t.pulse
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
	err := d.engine.askRun(d.engine.ctx, t.Run, t.heartbeat(details))
	d.heartbeatSent(attemptOf(&t.Dispatch), details, err)
}

// takeMerged returns the details that wait, which are being sent.
func (p *pulse) takeMerged() any {
	details := p.details
	p.details, p.waits, p.sending, p.last = nil, false, true, time.Now()
	return details
}

func (t *outTask) heartbeat(details any) state.Message {
	return state.Heartbeat{Token: t.Token, Attempt: t.Attempt, Epoch: t.Epoch, Details: details}
}

// flushHeartbeats sends, as the engine closes, the details that wait. The caller holds
// the lock; stopAndWait waits until they are sent.
func (d *dispatcher) flushHeartbeats() {
	for t := range d.allHeld {
		if t.pulse.details == nil || t.isOver() {
			continue
		}
		m := t.heartbeat(t.pulse.takeMerged())
		t.pulse.stopTimer()
		d.group.Go(func() { _ = d.engine.askRun(d.engine.ctx, t.Run, m) }) // whom could it tell?
	}
}

// withDetails adds the details that wait to the message that ends their attempt without
// a result.
func (d *dispatcher) withDetails(a taskkey.Attempt, m state.Message) state.Message {
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
func (d *dispatcher) detailsOf(a taskkey.Attempt, known any) any {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.heldAttempt(a); t != nil {
		return t.pulse.details
	}
	return known
}
