package pawl

import (
	"errors"
	"sync"
	"time"

	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// alarms wakes sleeping runs when they are due. It keeps no alarm itself: the
// index of runs knows them all. An active run minds its own.
//
// There are two reasons to wake a run: its alarm in the index is due, or an attempt to wake it
// has failed and its pause is over. One goroutine looks after both; others only poke it.
type alarms struct {
	engine *Engine
	poke   chan struct{} // gets a signal when it should look again; one is enough, as it looks at everything

	wake func(id workflow.RunID) error // activates a run

	mu sync.Mutex
	// A run that is damaged would otherwise fail at each scan, as its alarm stays due.
	broken  map[workflow.RunID]bool  // runs that could not be woken
	retries map[workflow.RunID]delay // runs to be tried again
}

// A delay is how long a run was left alone after its last failure, and until when.
type delay struct {
	wait time.Duration
	at   time.Time
}

// wakeBackoff is the pause between two attempts to wake a run.
var wakeBackoff = timeout.Backoff{First: 100 * time.Millisecond, Max: time.Minute}

// newAlarms returns alarms that wake nothing before watchAlarms runs.
func newAlarms(e *Engine) *alarms {
	return &alarms{
		engine: e, poke: make(chan struct{}, 1), wake: func(id workflow.RunID) error { return e.askRun(e.ctx, id, nil) },
		broken: map[workflow.RunID]bool{}, retries: map[workflow.RunID]delay{},
	}
}

// alarmChanged tells the alarms that the earliest one may have changed.
//
// It never blocks: a signal that waits already says the same.
func (a *alarms) alarmChanged() {
	select {
	case a.poke <- struct{}{}:
	default:
	}
}

// leaveAsleep notes that a run is not to be woken again.
//
// Only Purge takes that back, as the id may be used again.
func (a *alarms) leaveAsleep(id workflow.RunID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.broken[id] = true
}

// isLeftAsleep reports whether a run is not to be woken, or not yet.
func (a *alarms) isLeftAsleep(id workflow.RunID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, later := a.retries[id]
	return a.broken[id] || later
}

// runWoken notes that a run is up.
func (a *alarms) runWoken(id workflow.RunID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.retries, id)
}

// forgetRun forgets a run that was purged.
func (a *alarms) forgetRun(id workflow.RunID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.broken, id)
	delete(a.retries, id)
}

// retryLater notes that a run is to be woken again, and returns after how long.
//
// The pause grows with each failure of the same run, and runWoken ends the series.
func (a *alarms) retryLater(id workflow.RunID) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	d := a.retries[id]
	d.wait = wakeBackoff.Next(d.wait)
	d.at = time.Now().Add(d.wait)
	a.retries[id] = d
	a.alarmChanged()
	return d.wait
}

// dueRetries returns the runs that are to be tried again by now, and how long it is
// to the next one, at most the longest nap.
func (a *alarms) dueRetries() (due []workflow.RunID, next time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	// The nap is bounded so that a clock which is set forwards is noticed.
	next = a.engine.hook.MaxNap(timeout.MaxNap)
	for id, d := range a.retries {
		if wait := d.at.Sub(now); wait > 0 {
			next = min(next, wait)
		} else {
			due = append(due, id)
		}
	}
	return due, next
}

// watchAlarms wakes runs when they are due, until the engine closes.
//
// It looks at once when it begins, for alarms that were due while no engine was open.
func (a *alarms) watchAlarms() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-a.poke:
		case <-a.engine.ctx.Done():
			return
		}
		nap, err := a.fireDue()
		switch {
		case errors.Is(err, ErrFailed):
			a.engine.logFailure(err)
		case err != nil && !errors.Is(err, store.ErrClosed): // also while the engine closes: what the disk says is to be known
			a.engine.options.Logger.Error("pawl: alarms", "error", err)
		}
		timer.Reset(nap)
	}
}

// fireDue wakes the sleeping runs that are due, and returns after how long to look
// again.
//
// It goes on until nothing is due: waking takes time, in which more may come due. A run that is
// active is passed over, since its actor has a timer of its own. If the index cannot be read it
// tries again after the longest nap.
func (a *alarms) fireDue() (time.Duration, error) {
	e := a.engine
	for {
		now := e.hook.Now()
		due, err := e.dir.DueAlarms(now)
		if err != nil {
			return timeout.MaxNap, err
		}
		asleep, nap := a.dueRetries()
		for _, id := range due {
			if !e.registry.hasActor(id) && !a.isLeftAsleep(id) {
				asleep = append(asleep, id)
			}
		}
		if len(asleep) == 0 || e.ctx.Err() != nil {
			next, err := e.dir.NextAlarm(now)
			if !next.IsZero() {
				nap = min(nap, max(e.hook.Until(next), 0))
			}
			return nap, err
		}
		e.hook.Hit("alarm.wake")
		e.wakeRuns(asleep)
	}
}
