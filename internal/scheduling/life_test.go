package scheduling_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/witness"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/workflow"
)

// The environment that makes the test binary a life of a process.
const (
	childDir    = "PAWL_SCHEDULES_DIR"    // with the engine's directory and the ledger
	childNumber = "PAWL_SCHEDULES_NUMBER" // of the life, from 0
)

func TestMain(m *testing.M) {
	harness.Main(m, childDir, func(dir string) error {
		number, err := strconv.Atoi(os.Getenv(childNumber))
		if err != nil {
			return err
		}
		hit, err := harness.Killer()
		if err != nil {
			return err
		}
		return live(dir, number, hit)
	})
}

// A clock of a life begins 20 seconds later than that of the life before, goes fast, and stands still in the end.
type clock struct{ from, begun time.Time }

const (
	clockSpeed = 50
	lifetime   = 12 * time.Second // by the clock
)

func clockOf(number int) clock {
	return clock{time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC).Add(time.Duration(number) * 20 * time.Second), time.Now()}
}

func (c clock) now() time.Time { return c.from.Add(min(time.Since(c.begun)*clockSpeed, lifetime)) }
func (c clock) end() time.Time { return c.from.Add(lifetime) }

// patience is how long a life may take before it counts as stuck: it needs half a second of a processor that others may use as well.
const patience = 4 * time.Minute

// Workflows that the schedules start: a task, and one with a while behind it.
const (
	quick = "{name: quick, start: work, nodes: [{id: work, task: work}]}"
	slow3 = "{name: slow, start: work, nodes: [{id: work, task: work}, {id: hold, wait: {for: 2500ms}}], transitions: [{from: work, to: hold}]}"
)

// Schedules of every life: one for each thing that becomes of an instant, one that is paused, resumed, triggered and backfilled, one whose runs
// are purged, and one that every life changes.
const kept = `
schedules:
  - {id: allow, workflow: {name: quick}, every: 1s, overlap: allow, catchUp: {most: 1000}, input: {n: fire.count}}
  - {id: skip, workflow: {name: slow}, every: 1s, catchUp: {most: 1000}, input: {n: fire.count}}
  - {id: buffer, workflow: {name: slow}, every: 1s, overlap: buffer, catchUp: {most: 1000}, input: {n: fire.count}}
  - {id: cancel, workflow: {name: slow}, every: 2s, overlap: cancel, catchUp: {most: 1000}, input: {n: fire.count}}
  - {id: after, workflow: {name: quick}, after: 1s, input: {n: fire.count}}
  - {id: held, workflow: {name: quick}, every: 1s, overlap: allow, catchUp: {most: 1000}, input: {n: fire.count}}
  - {id: purged, workflow: {name: quick}, every: 1s, overlap: allow, catchUp: {most: 1000}, input: {n: fire.count}}
  - {id: changed, workflow: {name: quick}, every: 1s, overlap: allow, catchUp: {most: 1000}, input: {n: fire.count}, labels: {life: "%d"}}
`

// passing is a schedule that is deleted as soon as it was applied.
const passing = "schedules: [{id: passing, workflow: {name: quick}, every: 1s}]"

// A line is what a ledger tells: what a life was told, or is about to do.
type line struct {
	Life int            `json:"life"`
	What string         `json:"what"` // ran, purging, purged, triggered, applying, deleted, backfilled or closed
	Run  workflow.RunID `json:"run,omitempty"`
	From time.Time      `json:"from,omitzero"`
	To   time.Time      `json:"to,omitzero"`
}

// A life is a process that has the directory open until it is killed, or its clock stands still and everything that was due is decided.
type life struct {
	*pawl.Engine
	clock  clock
	number int
	mu     sync.Mutex // guards
	file   *os.File
	ran    chan workflow.RunID // tasks that were performed
	stirs  chan struct{}       // gets a signal at every failpoint of schedules
}

func live(dir string, number int, hit func(string)) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	l := &life{clock: clockOf(number), number: number, ran: make(chan workflow.RunID, 10_000), stirs: make(chan struct{}, 1)}
	var err error
	if l.file, err = witness.OpenLines(filepath.Join(dir, "ledger")); err != nil {
		return err
	}
	defer l.file.Close()
	hook := &testhook.Hook{}
	hook.OnNow(l.clock.now)
	hook.SetMaxNap(2 * time.Millisecond)
	hook.SetLogFrames(60)
	hook.OnHit(func(point string) {
		hit(point)
		if strings.HasPrefix(point, "schedule.") {
			select {
			case l.stirs <- struct{}{}:
			default:
			}
		}
	})
	l.Engine, err = pawl.Open(testhook.With(ctx, hook), filepath.Join(dir, "engine"), pawl.Options{Durability: pawl.ProcessCrash, Executor: l})
	if err != nil {
		return err
	}
	if err := l.work(ctx); err != nil {
		return errors.Join(err, l.Close(ctx))
	}
	if err := l.Close(ctx); err != nil {
		return err
	}
	l.tell(line{What: "closed"})
	return nil
}

// Execute implements pawl.Executor.
func (l *life) Execute(_ context.Context, t pawl.Task) (any, error) {
	l.tell(line{What: "ran", Run: t.Run})
	l.ran <- t.Run
	return nil, nil
}

// tell writes a line into the ledger. A process that is killed loses none that is written.
func (l *life) tell(one line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one.Life = l.number
	data, err := json.Marshal(one)
	if err == nil {
		_, err = l.file.Write(append(data, '\n'))
	}
	if err != nil {
		panic(fmt.Sprintf("ledger: %v", err))
	}
}

// work applies the schedules, acts on them as their runs go on, and waits until everything is decided.
func (l *life) work(ctx context.Context) error {
	for _, text := range []string{quick, slow3} {
		d, err := workflow.ParseYAML([]byte(text))
		if err == nil {
			_, err = l.Publish(ctx, d)
		}
		if err != nil {
			return err
		}
	}
	if err := l.applySet(ctx, fmt.Sprintf(kept, l.number)); err != nil {
		return err
	}
	n := 0
	for l.clock.now().Before(l.clock.end()) {
		select {
		case run := <-l.ran:
			var err error
			if strings.HasPrefix(string(run), "purged@") {
				err = l.purge(ctx, run)
			} else {
				err = l.act(ctx, n)
				n++
			}
			if err != nil {
				return err
			}
		case <-l.stirs:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for ; n < actsInTurn; n++ { // each act comes in each life, also where its clock outran the tasks
		if err := l.act(ctx, n); err != nil {
			return err
		}
	}
	if err := l.Schedules().Resume(ctx, "held"); err != nil {
		return err
	}
	for {
		done, err := l.isDecided(ctx)
		if done || err != nil {
			return err
		}
		select {
		case <-l.stirs:
		case <-time.After(10 * time.Millisecond): // a stir comes just before what it tells of can be read
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (l *life) applySet(ctx context.Context, text string) error {
	set, err := schedule.Parse([]byte(text))
	if err == nil {
		_, err = l.Schedules().Apply(ctx, set, pawl.ApplyOptions{})
	}
	return err
}

// actsInTurn is after how many acts they begin again.
const actsInTurn = 20

// act does the n-th thing to the schedules: they are applied, deleted, paused, triggered, resumed and backfilled in turn.
func (l *life) act(ctx context.Context, n int) (err error) {
	schedules := l.Schedules()
	switch n % actsInTurn {
	case 0:
		l.tell(line{What: "applying"})
		err = l.applySet(ctx, passing)
	case 1:
		if err = schedules.Delete(ctx, "passing"); err == nil {
			l.tell(line{What: "deleted"})
		} else if errors.Is(err, pawl.ErrScheduleNotFound) {
			err = nil // it was not applied this time
		}
	case 2:
		err = schedules.Pause(ctx, "held")
	case 14:
		err = schedules.Resume(ctx, "held")
	case 15:
		b := schedule.Backfill{From: l.clock.now().Add(-10 * time.Second).Truncate(time.Second), To: l.clock.now().Truncate(time.Second), Most: 2}
		if _, err = schedules.Backfill(ctx, "held", b); err == nil {
			l.tell(line{What: "backfilled", From: b.From, To: b.To})
		}
	case 5, 10, 17:
		var run workflow.RunID
		if run, err = schedules.Trigger(ctx, []string{"allow", "skip", "cancel"}[n%3]); err == nil {
			l.tell(line{What: "triggered", Run: run})
		}
	}
	if errors.Is(err, pawl.ErrBusy) {
		return nil // there is a run, or there are ten backfills
	}
	return err
}

func (l *life) purge(ctx context.Context, run workflow.RunID) error {
	if _, err := l.Wait(ctx, run); err != nil {
		return err
	}
	l.tell(line{What: "purging", Run: run})
	if err := l.Purge(ctx, run); err != nil {
		return err
	}
	l.tell(line{What: "purged", Run: run})
	return nil
}

// isDecided reports whether nothing that is due is left to be decided.
func (l *life) isDecided(ctx context.Context) (bool, error) {
	for st, err := range l.Schedules().List(ctx, "") {
		if err != nil {
			return false, err
		}
		slowly := st.Schedule.Workflow.Name == "slow" // its runs wait for the clock
		if len(st.Backfills) > 0 || !slowly && len(st.Running) > 0 || len(st.Next) > 0 && !st.Next[0].Due.After(l.clock.end()) {
			return false, nil
		}
	}
	return true, nil
}

// readLedger returns the lines of a ledger.
func readLedger(dir string) ([]line, error) {
	data, err := witness.ReadLines(filepath.Join(dir, "ledger"))
	if err != nil {
		return nil, err
	}
	var out []line
	for text := range strings.Lines(string(data)) {
		var one line
		if err := json.Unmarshal([]byte(text), &one); err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return slices.Clip(out), nil
}
