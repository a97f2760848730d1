package pawltest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// beginLives opens the engine's first life and listens to it. It returns what ends
// both.
func (d *driver) beginLives() (end func() error, err error) {
	d.hook.OnHit(d.atFailpoint)
	d.hook.OnAlarm(d)
	d.hook.SetMaxNap(century) // virtual time never jumps
	if s := d.scenario.document.Schedule; s != nil {
		d.sleepThrough(s.From.Time)
		d.began = time.Now()
	}
	if err := d.openEngine(); err != nil {
		return nil, err
	}
	return func() error {
		d.mu.Lock()
		d.crashed = true // no timer is held, no task arrives
		d.arrived, d.calls = nil, nil
		d.mu.Unlock()
		return d.engine.Close(d.ctx)
	}, nil
}

// century is longer than an engine in virtual time has to wait without a look at the
// clock.
const century = 100 * 365 * 24 * time.Hour

// openEngine opens the engine of the next life on its directory.
func (d *driver) openEngine() error {
	d.mu.Lock()
	d.life++
	d.crashed = false
	life := d.life
	d.mu.Unlock()
	engine, err := pawl.Open(testhook.With(d.ctx, &d.hook), d.lifeFolder(life), pawl.Options{
		Logger:   slog.New(slog.DiscardHandler), // the scenario says what is expected
		Executor: pawl.Handlers{"*": d.newHandler(life)}, Durability: pawl.ProcessCrash, Concurrency: 1 << 20,
	})
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.engine = engine
	d.mu.Unlock()
	return nil
}

// lifeFolder returns the directory of the engine in one of its lives.
func (d *driver) lifeFolder(life int) string { return filepath.Join(d.folder, fmt.Sprint(life)) }

// isDown reports whether the engine has crashed.
func (d *driver) isDown() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.crashed
}

// crashAndReopen lets the process crash, unless it has, and begin anew after a while: of
// the engine nothing is left but its files, as they are at this moment.
func (d *driver) crashAndReopen(downtime time.Duration) error {
	if back := time.Now().Add(downtime); back.After(timeout.Literal) {
		return endOfTime(back)
	}
	synctest.Wait()
	d.mu.Lock()
	d.resume = d.crashed
	if !d.crashed {
		d.crashed = true
		d.hook.Fence()
	}
	d.arrived, d.calls = nil, nil
	clear(d.held)
	old, next := d.lifeFolder(d.life), d.lifeFolder(d.life+1)
	d.mu.Unlock()
	synctest.Wait() // what was being written is written
	if err := copyFolder(old, next); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(d.ctx)
	cancel()
	_ = d.engine.Close(ctx) // the remains of the crash
	if err := os.RemoveAll(old); err != nil {
		return err
	}
	if downtime > 0 {
		d.sleepThrough(time.Now().Add(downtime))
	}
	return d.openEngine()
}

// sleepThrough lets time pass until an instant, whatever happens.
func (d *driver) sleepThrough(at time.Time) {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	<-timer.C
}

// copyFolder copies a folder as a crash would leave it. Files that vanish in the meantime are not copied.
func copyFolder(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if e.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o600)
	})
}

// atFailpoint is called by the engine's goroutines at its failpoints.
func (d *driver) atFailpoint(name string) {
	switch name {
	case "release.begin":
		if d.countCommit() {
			panic("the process has crashed")
		}
	case "fork.answer", "schedule.kept", "schedule.applied", "schedule.deleted":
		d.countCommit() // nothing of it leaves: no task arrives any more
	}
}

// countCommit counts a commit of a run, and crashes after the one that it is to
// crash after, which it reports: what is committed is there, nothing of it has left.
func (d *driver) countCommit() (crash bool) {
	d.mu.Lock()
	d.commits++
	crash = d.commits == d.options.crashAt
	if crash {
		d.crashed = true
		d.hook.Fence()
	}
	d.mu.Unlock()
	if crash {
		d.wakeDriver()
	}
	return crash
}

// Hold keeps the timers of a run that are due from firing until the driver has nothing else to let happen at the same
// instant. A run that has slept, which the engine wakes when it is due, comes here like one that was in memory.
func (d *driver) Hold(run string, ring func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.crashed || d.ringing == run {
		return false
	}
	d.held[workflow.RunID(run)] = ring
	d.wakeDriver()
	return true
}

// Rang notes that the timers of a run fire: those that come due by that are held again.
func (d *driver) Rang(string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ringing = ""
}

// ringOne lets the timers of one run fire, and reports whether there is such a run. If there are several, the deepest is
// first: the end of a child counts before the timeout of its parent at the same instant, as the result of a task does.
func (d *driver) ringOne() bool {
	d.mu.Lock()
	d.ringing = ""
	if len(d.held) == 0 {
		d.mu.Unlock()
		return false
	}
	first := slices.MinFunc(slices.Collect(maps.Keys(d.held)), compareDepths)
	ring := d.held[first]
	delete(d.held, first)
	d.ringing = string(first)
	d.mu.Unlock()
	ring()
	return true
}

// compareDepths orders runs: a child before its parent, and those of one depth as compareRuns does. Behind them are the schedules,
// which are named with an @ before the id.
func compareDepths(a, b workflow.RunID) int {
	depth := func(run workflow.RunID) int { return strings.Count(string(run), "/") }
	order := func(run workflow.RunID) int { return len(run) - len(strings.TrimPrefix(string(run), "@")) }
	return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(depth(b), depth(a)), compareRuns(a, b))
}
