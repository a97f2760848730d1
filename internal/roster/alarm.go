package roster

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// Alarms wake sleeping runs when they are due. It keeps no alarm itself: the
// index of runs knows them all. An active run minds its own.
//
// There are two reasons to wake a run: its alarm in the index is due, or an attempt to wake it
// has failed and its pause is over. One goroutine looks after both; others only poke it.
type Alarms struct {
	o    AlarmOptions
	poke chan struct{} // gets a signal when it should look again; one is enough, as it looks at everything

	mu sync.Mutex
	// A run that is damaged would otherwise fail at each scan, as its alarm stays due.
	broken  map[workflow.RunID]bool  // runs that could not be woken
	retries map[workflow.RunID]delay // runs to be tried again
	late    time.Time                // when the earliest alarm was due of the runs that are due and sleep; zero if none does
	next    time.Time                // when the next alarm is due, as far as it knows that
}

// A delay is how long a run was left alone after its last failure, and until when.
type delay struct {
	wait time.Duration
	at   time.Time
}

// wakeBackoff is the pause between two attempts to wake a run.
var wakeBackoff = timeout.Backoff{First: 100 * time.Millisecond, Max: time.Minute}

// AlarmOptions say whose alarms fire. All fields but Hook are needed.
type AlarmOptions struct {
	Dir    AlarmDirectory
	Active func(id workflow.RunID) bool // reports whether a run has an actor
	Wake   func(ids []workflow.RunID)   // activates runs, and tells the alarms what came of each
	Failed func(err error)              // tells that the directory has failed
	Logger *slog.Logger
	Hook   *testhook.Hook
}

// An AlarmDirectory is the engine directory as alarms see it; *store.Dir is one.
type AlarmDirectory interface {
	DueAlarms(now time.Time) ([]store.DueAlarm, error)
	NextAlarm(now time.Time) (time.Time, error)
}

// NewAlarms returns alarms that wake nothing before Watch runs.
func NewAlarms(o AlarmOptions) *Alarms {
	return &Alarms{o: o, poke: make(chan struct{}, 1), broken: map[workflow.RunID]bool{}, retries: map[workflow.RunID]delay{}}
}

// Changed tells the alarms that the earliest one may have changed.
//
// It never blocks: a signal that waits already says the same.
func (a *Alarms) Changed() {
	select {
	case a.poke <- struct{}{}:
	default:
	}
}

// LeaveAsleep notes that a run is not to be woken again.
//
// Only Purge takes that back, as the id may be used again.
func (a *Alarms) LeaveAsleep(id workflow.RunID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.broken[id] = true
	delete(a.retries, id)
}

// isLeftAsleep reports whether a run is not to be woken, or not yet.
func (a *Alarms) isLeftAsleep(id workflow.RunID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, later := a.retries[id]
	return a.broken[id] || later
}

// Woken notes that a run is up.
func (a *Alarms) Woken(id workflow.RunID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.retries, id)
}

// Forget forgets a run that was purged.
func (a *Alarms) Forget(id workflow.RunID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.broken, id)
	delete(a.retries, id)
}

// RetryLater notes that a run is to be woken again, and returns after how long. A run that is left asleep stays so.
//
// The pause grows with each failure of the same run, and Woken ends the series.
func (a *Alarms) RetryLater(id workflow.RunID) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.broken[id] {
		return 0
	}
	d := a.retries[id]
	d.wait = wakeBackoff.Next(d.wait)
	d.at = time.Now().Add(d.wait)
	a.retries[id] = d
	a.Changed()
	return d.wait
}

// dueRetries returns the runs that are to be tried again by now, and how long it is
// to the next one, at most the longest nap.
func (a *Alarms) dueRetries() (due []workflow.RunID, next time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	// The nap is bounded so that a clock which is set forwards is noticed.
	next = a.o.Hook.MaxNap(timeout.MaxNap)
	for id, d := range a.retries {
		if wait := d.at.Sub(now); wait > 0 {
			next = min(next, wait)
		} else {
			due = append(due, id)
		}
	}
	return due, next
}

// Watch wakes runs when they are due, until ctx is done.
//
// It looks at once when it begins, for alarms that were due while no engine was open.
func (a *Alarms) Watch(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-a.poke:
		case <-ctx.Done():
			return
		}
		nap, err := a.fireDue(ctx)
		switch {
		case errors.Is(err, store.ErrFailed):
			a.o.Failed(err)
		case err != nil && !errors.Is(err, store.ErrClosed): // also while the engine closes: what the disk says is to be known
			a.o.Logger.Error("pawl: alarms", "error", err)
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
func (a *Alarms) fireDue(ctx context.Context) (time.Duration, error) {
	for {
		now := a.o.Hook.Now()
		due, err := a.o.Dir.DueAlarms(now)
		if err != nil {
			return timeout.MaxNap, err
		}
		asleep, nap := a.dueRetries()
		var late time.Time
		for _, d := range due {
			if a.o.Active(d.Run) {
				continue
			}
			if late.IsZero() {
				late = d.At
			}
			if !a.isLeftAsleep(d.Run) {
				asleep = append(asleep, d.Run)
			}
		}
		a.noteDue(late, time.Time{})
		if len(asleep) == 0 || ctx.Err() != nil {
			next, err := a.o.Dir.NextAlarm(now)
			a.noteDue(late, next)
			if !next.IsZero() {
				nap = min(nap, max(a.o.Hook.Until(next), 0))
			}
			return nap, err
		}
		a.o.Hook.Hit("alarm.wake")
		a.o.Wake(asleep)
	}
}

// noteDue notes when the earliest alarm was due of the runs that sleep, and when the next one will be.
func (a *Alarms) noteDue(late, next time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.late, a.next = late, next
}

// Overdue returns when the earliest alarm was due of a run that sleeps and is to be woken; zero without one. It waits for
// nobody: while the index cannot be read, the alarm that was to come is known.
func (a *Alarms) Overdue() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.late.IsZero() && !a.next.IsZero() && a.o.Hook.Until(a.next) <= 0 {
		return a.next
	}
	return a.late
}
