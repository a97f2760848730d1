package pawl

import (
	"errors"
	"sync"
	"time"

	"github.com/pawl-run/pawl/internal/clock"
	"github.com/pawl-run/pawl/internal/failpoint"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// wakeAtOnce bounds how many sleeping runs are woken side by side.
const wakeAtOnce = 64

// wake activates runs that nobody has asked for, so many at once, and returns
// when each of them is up or has failed.
func (e *Engine) wake(ids []workflow.RunID) {
	gate := make(chan struct{}, wakeAtOnce)
	var group sync.WaitGroup
	for _, id := range ids {
		select {
		case gate <- struct{}{}:
		case <-e.ctx.Done():
		}
		if e.ctx.Err() != nil {
			break
		}
		group.Go(func() {
			defer func() { <-gate }()
			e.wakeOne(id)
		})
	}
	group.Wait()
}

// wakeOne activates a run. What is damaged is left as it is; any other error
// may pass (no descriptors, no memory, a disk that does not answer), so the run
// is tried again later.
func (e *Engine) wakeOne(id workflow.RunID) {
	err := e.alarms.up(id)
	switch {
	case err == nil:
		e.alarms.woken(id)
	case errors.Is(err, ErrClosed), e.ctx.Err() != nil:
	case errors.Is(err, ErrCorrupt), errors.Is(err, store.ErrVersion), errors.Is(err, ErrRunNotFound):
		e.alarms.leave(id)
		e.options.Logger.Error("pawl: a run cannot go on", "run", string(id), "error", err)
	default:
		wait := e.alarms.retry(id)
		e.options.Logger.Warn("pawl: a run cannot be woken now", "run", string(id), "again", wait, "error", err)
	}
}

// alarms wakes sleeping runs when they are due. It keeps no alarm itself: the
// index of runs knows them all. An active run minds its own.
type alarms struct {
	engine *Engine
	poke   chan struct{}

	up func(id workflow.RunID) error // activates a run

	mu     sync.Mutex
	broken map[workflow.RunID]bool  // runs that could not be woken
	later  map[workflow.RunID]delay // runs to be tried again
}

// A delay is how long a run was left alone after its last failure, and until when.
type delay struct {
	wait time.Duration
	at   time.Time
}

// Between two attempts to wake a run, the first time and at most.
const (
	firstDelay = 100 * time.Millisecond
	maxDelay   = time.Minute
)

func newAlarms(e *Engine) *alarms {
	return &alarms{
		engine: e, poke: make(chan struct{}, 1), up: func(id workflow.RunID) error { return e.ask(e.ctx, id, nil) },
		broken: map[workflow.RunID]bool{}, later: map[workflow.RunID]delay{},
	}
}

// changed says that the earliest alarm may have changed.
func (a *alarms) changed() {
	select {
	case a.poke <- struct{}{}:
	default:
	}
}

// leave says that a run is not to be woken again.
func (a *alarms) leave(id workflow.RunID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.broken[id] = true
}

// left reports whether a run is not to be woken, or not yet.
func (a *alarms) left(id workflow.RunID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, later := a.later[id]
	return a.broken[id] || later
}

// woken says that a run is up.
func (a *alarms) woken(id workflow.RunID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.later, id)
}

// forget forgets what is known of a run that is gone.
func (a *alarms) forget(id workflow.RunID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.broken, id)
	delete(a.later, id)
}

// retry says that a run is to be woken again, and returns after how long.
func (a *alarms) retry(id workflow.RunID) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	d := a.later[id]
	d.wait = min(max(2*d.wait, firstDelay), maxDelay)
	d.at = time.Now().Add(d.wait)
	a.later[id] = d
	a.changed()
	return d.wait
}

// again returns the runs that are to be tried again by now, and how long it is
// to the next one, at most maxNap.
func (a *alarms) again() (due []workflow.RunID, next time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	next = maxNap
	for id, d := range a.later {
		if wait := d.at.Sub(now); wait > 0 {
			next = min(next, wait)
		} else {
			due = append(due, id)
		}
	}
	return due, next
}

// maxNap bounds how long alarms sleeps, so that a wall clock that jumps is
// noticed.
const maxNap = time.Minute

func (a *alarms) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-a.poke:
		case <-a.engine.ctx.Done():
			return
		}
		nap, err := a.fire()
		if err != nil && a.engine.ctx.Err() == nil {
			a.engine.options.Logger.Error("pawl: alarms", "error", err)
		}
		timer.Reset(nap)
	}
}

// fire wakes what is due and sleeps, and returns after how long to look again.
func (a *alarms) fire() (time.Duration, error) {
	e := a.engine
	for {
		now := clock.Now()
		due, err := e.dir.DueAlarms(now)
		if err != nil {
			return maxNap, err
		}
		asleep, nap := a.again()
		for _, id := range due {
			if !e.registry.has(id) && !a.left(id) {
				asleep = append(asleep, id)
			}
		}
		if len(asleep) == 0 || e.ctx.Err() != nil {
			next, err := e.dir.NextAlarm(now)
			if !next.IsZero() {
				nap = min(nap, max(clock.Until(next), 0))
			}
			return nap, err
		}
		failpoint.Hit("alarm.wake")
		e.wake(asleep)
	}
}
