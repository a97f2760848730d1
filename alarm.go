package pawl

import (
	"errors"
	"sync"
	"time"

	"github.com/pawl-run/pawl/internal/failpoint"
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

func (e *Engine) wakeOne(id workflow.RunID) {
	err := e.ask(e.ctx, id, nil)
	if err == nil || errors.Is(err, ErrClosed) || e.ctx.Err() != nil {
		return
	}
	e.alarms.leave(id)
	e.options.Logger.Error("pawl: a run cannot go on", "run", string(id), "error", err)
}

// alarms wakes sleeping runs when they are due. It keeps no alarm itself: the
// index of runs knows them all. An active run minds its own.
type alarms struct {
	engine *Engine
	poke   chan struct{}

	mu     sync.Mutex
	broken map[workflow.RunID]bool // runs that could not be woken
}

func newAlarms(e *Engine) *alarms {
	return &alarms{engine: e, poke: make(chan struct{}, 1), broken: map[workflow.RunID]bool{}}
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

func (a *alarms) left(id workflow.RunID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.broken[id]
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
		nap := maxNap
		at, err := a.fire()
		if err != nil && a.engine.ctx.Err() == nil {
			a.engine.options.Logger.Error("pawl: alarms", "error", err)
		}
		if !at.IsZero() {
			nap = min(max(time.Until(at), 0), maxNap)
		}
		timer.Reset(nap)
	}
}

// fire wakes what is due and sleeps, and returns when the next run is due.
func (a *alarms) fire() (time.Time, error) {
	e := a.engine
	for {
		now := time.Now()
		due, err := e.dir.DueAlarms(now)
		if err != nil {
			return time.Time{}, err
		}
		var asleep []workflow.RunID
		for _, id := range due {
			if !e.registry.has(id) && !a.left(id) {
				asleep = append(asleep, id)
			}
		}
		if len(asleep) == 0 || e.ctx.Err() != nil {
			return e.dir.NextAlarm(now)
		}
		failpoint.Hit("alarm.wake")
		e.wake(asleep)
	}
}
