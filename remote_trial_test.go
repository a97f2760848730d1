package pawl_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/store/logtest"
	"github.com/pawl-run/pawl/workflow"
)

// The log may do anything, any directories may be lost, and any machine may take over from any other: all that was
// acknowledged is there for good, and all directories become the same.
func TestRemoteThroughFaults(t *testing.T) {
	before := debug.SetGCPercent(400) // what a seed has used is soon free
	t.Cleanup(func() { debug.SetGCPercent(before) })
	var seeds []uint64
	for seed := range harness.Figure[uint64](2000, 2000, 100_000) {
		seeds = append(seeds, seed)
	}
	for _, seed := range harness.SampleOfDay(t, harness.Figure(500, 20, 1), seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { newRemoteTrial(t, seed).play() })
		})
	}
}

// A remoteTrial is a directory that moves between machines.
type remoteTrial struct {
	*sharedPlace
	t     *testing.T
	r     *rand.Rand
	dirs  []string
	open  map[int]*pawl.Engine // by machine
	owner int
	taken uint64 // where the owner has taken the log
	def   *workflow.Definition
	large bool                        // some records are spilled
	fresh bool                        // the owner was opened since it was checked
	away  atomic.Bool                 // the store of bases takes nothing
	acked map[workflow.RunID][]string // journals of runs that were acknowledged
	ended map[workflow.RunID]bool
	n     int
}

func newRemoteTrial(t *testing.T, seed uint64) *remoteTrial {
	x := &remoteTrial{sharedPlace: newSharedPlace(t), t: t, r: rand.New(rand.NewPCG(seed, 3)), open: map[int]*pawl.Engine{}, acked: map[workflow.RunID][]string{}, ended: map[workflow.RunID]bool{}}
	for i := range 3 {
		x.dirs = append(x.dirs, filepath.Join(t.TempDir(), fmt.Sprint("machine-", i)))
	}
	x.def, x.large = define(t, chainOf), x.r.IntN(4) == 0
	return x
}

var largeResult = harness.RandomLetters(600 << 10)

// openAt opens the engine on a machine, which takes the log from the one that has it.
func (x *remoteTrial) openAt(machine int) {
	x.closeAt(machine)
	faults := rand.New(rand.NewPCG(x.r.Uint64(), 4))
	h := pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
		if x.large && task.Node == "b" && len(task.Key)%3 == 0 {
			return largeResult, nil // its record is spilled
		}
		return int64(1), nil
	}}
	o := x.options(h, func(string) logtest.Fault {
		if faults.IntN(4) > 0 {
			return logtest.None
		}
		return logtest.Fault(faults.IntN(int(logtest.Hangs)))
	})
	x.away.Store(false) // Open waits for nobody who cannot make a base
	o.Remote.Bases = awayStore{x.bases, x.away.Load}
	e, err := pawl.Open(x.t.Context(), x.dirs[machine], o)
	require.NoError(x.t, err)
	x.open[machine], x.owner, x.fresh = e, machine, true
	_, x.taken = x.log.Bounds()
}

func (x *remoteTrial) play() {
	x.openAt(0)
	for range 4 + x.r.IntN(harness.Figure(20, 10, 20)) { // the gate has many seeds
		x.away.Store(x.r.IntN(3) == 0)
		switch x.r.IntN(10) {
		case 0: // another machine takes over; the owner does not know
			x.openAt((x.owner + 1) % 3)
		case 1: // its machine is lost
			x.closeAt(x.owner)
			require.NoError(x.t, os.RemoveAll(x.dirs[x.owner]))
			x.openAt(x.r.IntN(3))
		case 2: // it is closed and opened
			x.openAt(x.owner)
		case 3:
			for id := range x.ended {
				if x.open[x.owner].Purge(x.t.Context(), id) == nil {
					delete(x.acked, id)
				}
				delete(x.ended, id)
				break
			}
		case 4: // the log loses what it got since the owner has taken it, or some of that
			x.loseEnd()
			x.openAt(x.owner)
		case 5: // the log is gone, or has a hole: it is begun anew from what the owner has
			x.closeAt(x.owner)
			if x.r.IntN(2) == 0 {
				x.log = &logtest.Memory{}
			} else if first, last := x.log.Bounds(); last > first {
				x.log.Miss(first + uint64(x.r.IntN(int(last-first)))) //nolint:gosec // not negative
			}
			x.recover()
			x.openAt(x.owner)
		case 6:
			<-time.After(time.Duration(x.r.IntN(120)) * time.Second)
		default:
			x.runOnce()
		}
		x.check(x.open[x.owner])
	}
	x.compare()
}

// recover begins the log anew.
func (x *remoteTrial) recover() {
	calls := x.r.IntN(5)
	log := x.log.Writer(func(string) logtest.Fault {
		calls++
		return []logtest.Fault{logtest.None, logtest.AnswerLost, logtest.None, logtest.Late, logtest.Refused}[calls%5]
	})
	_, err := pawl.Recover(x.t.Context(), x.dirs[x.owner], pawl.RecoverOptions{Log: log, Bases: x.bases, Begin: true})
	if err != nil {
		require.ErrorIs(x.t, err, pawl.ErrNothingLost)
	}
}

// loseEnd has the log lose what it got since the owner has taken it, or a part of that. The owner notices.
func (x *remoteTrial) loseEnd() {
	first, last := x.log.Bounds()
	first = max(first, x.taken-1)
	x.log.Lose(first + uint64(x.r.IntN(int(last-first)))) //nolint:gosec // not negative
	err := x.open[x.owner].Start(x.t.Context(), workflow.Run{ID: "lost", Definition: x.def}, nil)
	require.ErrorIs(x.t, err, pawl.ErrCorrupt)
}

// runOnce lets the owner, or one that thinks so, execute a run.
func (x *remoteTrial) runOnce() {
	for machine, e := range x.open {
		x.n++
		id := workflow.RunID(fmt.Sprintf("run-%d", x.n))
		_, err := e.Run(x.t.Context(), workflow.Run{ID: id, Definition: x.def}, map[string]any{"rounds": int64(x.r.IntN(3))})
		if machine != x.owner {
			require.Error(x.t, err, "it has lost the log")
			continue
		}
		require.NoError(x.t, err)
		x.acked[id], x.ended[id] = journalOf(x.t, e, id), true
	}
}

func (x *remoteTrial) closeAt(machine int) {
	if e := x.open[machine]; e != nil {
		if err := e.Close(x.t.Context()); err != nil {
			require.ErrorIs(x.t, err, pawl.ErrFailed)
		}
		delete(x.open, machine)
	}
}

// check checks that an engine has everything that was acknowledged. In one life of it a journal only grows, so it is read once.
func (x *remoteTrial) check(e *pawl.Engine) {
	found := map[workflow.RunID]bool{}
	for _, id := range idsOf(x.t, e) {
		found[id] = true
	}
	for id, was := range x.acked {
		require.True(x.t, found[id], "%s is lost", id)
		if x.fresh {
			require.Equal(x.t, was, journalOf(x.t, e, id))
		}
	}
	x.fresh = false
	require.Len(x.t, found, len(x.acked))
}

// compare opens the directory on every machine in turn, and compares what they have.
func (x *remoteTrial) compare() {
	var rows any
	for machine := range x.dirs {
		x.closeAt(machine)
	}
	whole := x.r.IntN(len(x.dirs)) // which is read in full
	for machine, dir := range x.dirs {
		e, err := pawl.Open(x.t.Context(), dir, x.options(nil, nil))
		require.NoError(x.t, err)
		x.fresh = machine == whole
		x.check(e)
		require.NoError(x.t, e.Close(x.t.Context()))
		if machine == whole {
			report, err := rescue.Verify(x.t.Context(), dir, rescue.Options{})
			require.NoError(x.t, err)
			require.Empty(x.t, report.Findings)
		}
		if rows == nil {
			rows = rowsOf(x.t, dir)
		}
		require.Equal(x.t, rows, rowsOf(x.t, dir), "machine %d", machine)
	}
	if whole > 0 { // TestRemote restores, too
		return
	}
	into := filepath.Join(x.t.TempDir(), "restored")
	info, err := pawl.Restore(x.t.Context(), into, pawl.RestoreOptions{Log: x.log.Writer(nil), Bases: x.bases})
	require.NoError(x.t, err)
	require.Empty(x.t, info.Damaged)
	require.Equal(x.t, rows, rowsOf(x.t, into))
}

// listError returns the error that ends a list.
func listError[T any](list func(func(T, error) bool)) (last error) {
	list(func(_ T, err error) bool { last = err; return true })
	return last
}

// Lists that wait for a log which does not answer wait no longer than their contexts, whichever of them waits first.
func TestListsWaitForALogUntilTheirContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, silent := newSharedPlace(t), atomic.Bool{}
		o := p.options(nil, func(string) logtest.Fault {
			if silent.Load() {
				return logtest.Refused
			}
			return logtest.None
		})
		e, err := pawl.Open(t.Context(), filepath.Join(replays.Dir(t), "data"), o)
		require.NoError(t, err)
		def := define(t, "name: w\nstart: a\nnodes: [{id: a, wait: {event: go}}]\n")
		publish(t, e, def)
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "first", Definition: def}, nil))
		silent.Store(true)
		started := make(chan error)
		go func() { started <- e.Start(t.Context(), workflow.Run{ID: "second", Definition: def}, nil) }()
		synctest.Wait()

		lists := map[string]func(context.Context) error{
			"Runs": func(ctx context.Context) error { return listError(e.Runs(ctx, pawl.RunFilter{})) },
			"Runs of a label": func(ctx context.Context) error {
				return listError(e.Runs(ctx, pawl.RunFilter{Labels: map[string]string{"a": "b"}}))
			},
			"Runs of a prefix": func(ctx context.Context) error { return listError(e.Runs(ctx, pawl.RunFilter{Prefix: "f"})) },
			"Runs after one":   func(ctx context.Context) error { return listError(e.Runs(ctx, pawl.RunFilter{After: "first"})) },
			"Approvals":        func(ctx context.Context) error { return listError(e.Approvals(ctx, pawl.ApprovalFilter{})) },
			"DeadLetters":      func(ctx context.Context) error { return listError(e.DeadLetters(ctx, pawl.DeadLetterFilter{})) },
			"DeadLetters where": func(ctx context.Context) error {
				return listError(e.DeadLetters(ctx, pawl.DeadLetterFilter{Where: "status == 'running'"}))
			},
			"Definitions": func(ctx context.Context) error { return listError(e.Definitions(ctx, pawl.DefinitionFilter{})) },
			"Counts":      func(ctx context.Context) error { _, err := e.Counts(ctx); return err },
			"Summary":     func(ctx context.Context) error { _, err := e.Summary(ctx, "first"); return err },
		}
		ended := make(chan error, 10*len(lists))
		for i := range 3 {
			for name, list := range lists {
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*time.Second)
					defer cancel()
					began := time.Now()
					err := list(ctx)
					if took := time.Since(began); took != time.Duration(i+1)*time.Second {
						t.Errorf("%s took %v", name, took)
					}
					ended <- err
				}()
			}
		}
		for range 3 * len(lists) {
			require.ErrorIs(t, <-ended, context.DeadlineExceeded)
		}
		for _, list := range lists {
			go func() { ended <- list(t.Context()) }()
		}
		synctest.Wait()
		require.Empty(t, ended)
		silent.Store(false)
		require.NoError(t, <-started)
		for range lists {
			require.NoError(t, <-ended)
		}
		require.NoError(t, e.Close(t.Context()))
	})
}

// errorOf is the error of a call that returns something as well.
func errorOf[T any](_ T, err error) error { return err }

// openOnSilentLog opens an engine whose log answers while the flag is not set.
func openOnSilentLog(t *testing.T) (*pawl.Engine, *atomic.Bool) {
	silent := &atomic.Bool{}
	o := newSharedPlace(t).options(nil, func(string) logtest.Fault {
		if silent.Load() {
			return logtest.Refused
		}
		return logtest.None
	})
	e, err := pawl.Open(t.Context(), filepath.Join(t.TempDir(), "data"), o)
	require.NoError(t, err)
	return e, silent
}

// A call that looks at a run, or acts on one, waits for a log that does not answer no longer than its context.
func TestCallsWaitForALogUntilTheirContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, silent := openOnSilentLog(t)
		def := define(t, "name: w\nstart: a\nnodes: [{id: a, wait: {event: go}}]\n")
		publish(t, e, def)
		for _, id := range []workflow.RunID{"first", "ended", "other"} {
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: def}, nil))
		}
		require.NoError(t, e.Cancel(t.Context(), "ended", "for the test"))
		require.NoError(t, errorOf(e.Once(t.Context(), "kept", func(context.Context) (any, error) { return "out", nil })))
		require.NoError(t, errorOf(e.PutBlob(t.Context(), strings.NewReader("old"), "")))
		<-time.After(2 * time.Minute) // no run that has ended is in memory any more
		silent.Store(true)
		started := make(chan error)
		go func() { started <- e.Start(t.Context(), workflow.Run{ID: "second", Definition: def}, nil) }()
		synctest.Wait()

		none := pawl.EventsOptions{}
		for name, call := range map[string]func(context.Context) error{
			"Inspect":    func(ctx context.Context) error { return errorOf(e.Inspect(ctx, "first")) },
			"Events":     func(ctx context.Context) error { return listError(e.Events(ctx, "first", none)) },
			"Journal":    func(ctx context.Context) error { return listError(e.Journal(ctx, "first", pawl.EventsOptions{})) },
			"Wait":       func(ctx context.Context) error { return errorOf(e.Wait(ctx, "ended")) },
			"Why":        func(ctx context.Context) error { return errorOf(e.Why(ctx, "first")) },
			"Overview":   func(ctx context.Context) error { return errorOf(e.Overview(ctx, "ended")) },
			"Tokens":     func(ctx context.Context) error { return listError(e.Tokens(ctx, "ended", pawl.TokenFilter{})) },
			"Signals":    func(ctx context.Context) error { return listError(e.Signals(ctx, "ended")) },
			"Branches":   func(ctx context.Context) error { return listError(e.Branches(ctx, "ended", pawl.BranchFilter{})) },
			"Published":  func(ctx context.Context) error { return errorOf(e.Published(ctx, "w", 1)) },
			"Definition": func(ctx context.Context) error { _, _, err := e.Definition(ctx, "ended"); return err },
			"Revision":   func(ctx context.Context) error { return errorOf(e.Revision(ctx, "ended", 1)) },
			"Revisions":  func(ctx context.Context) error { return listError(e.Revisions(ctx, "ended", 0)) },
			"Export":     func(ctx context.Context) error { return e.Export(ctx, "first", io.Discard, pawl.ExportOptions{}) },
			"Simulate":   func(ctx context.Context) error { return errorOf(e.Simulate(ctx, pawl.OfRun{Run: "first"})) },
			"SimulateAt": func(ctx context.Context) error { return errorOf(e.Simulate(ctx, pawl.OfRun{Run: "first", At: 1})) },
			"SimulateFork": func(ctx context.Context) error {
				return errorOf(e.Simulate(ctx, pawl.OfFork{From: pawl.Target{Run: "ended"}, To: "third"}))
			},
			"SimulateStart": func(ctx context.Context) error {
				return errorOf(e.Simulate(ctx, pawl.OfStart{Run: workflow.Run{ID: "first", Workflow: "w"}}))
			},
			"Publish": func(ctx context.Context) error {
				next := *def
				next.Version++
				return errorOf(e.Publish(ctx, &next))
			},
			"DryRunPublish": func(ctx context.Context) error { _, _, err := e.DryRunPublish(ctx, def); return err },
			"DryRunPurge":   func(ctx context.Context) error { return errorOf(e.DryRunPurge(ctx, "ended")) },
			"Once":          func(ctx context.Context) error { return errorOf(e.Once(ctx, "kept", nil)) },
			"Start by name": func(ctx context.Context) error { return e.Start(ctx, workflow.Run{ID: "third", Workflow: "w"}, nil) },
			"Start":         func(ctx context.Context) error { return e.Start(ctx, workflow.Run{ID: "third", Definition: def}, nil) },
			"Fork":          func(ctx context.Context) error { return e.Fork(ctx, "ended", "third", pawl.ForkOptions{}) },
			"Signal":        func(ctx context.Context) error { return e.Signal(ctx, "first", workflow.Signal{Name: "go"}) },
			"Cancel":        func(ctx context.Context) error { return e.Cancel(ctx, "other", "again") },
			"Retry": func(ctx context.Context) error {
				return e.Retry(ctx, pawl.Target{Run: "first", Node: "a"}, pawl.RetryOptions{})
			},
			"Purge": func(ctx context.Context) error { return e.Purge(ctx, "ended") },
			"DoAll": func(ctx context.Context) error {
				return errorOf(e.DoAll(ctx, pawl.Selection{Runs: &pawl.RunFilter{}}, pawl.Cancel{}))
			},
			"CollectBlobs": func(ctx context.Context) error { return errorOf(e.CollectBlobs(ctx, time.Minute)) },
			"Forget":       func(ctx context.Context) error { return e.Forget(ctx, "kept") },
			"ForgetBefore": func(ctx context.Context) error { return errorOf(e.ForgetBefore(ctx, time.Now())) },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			ended, began := make(chan error, 1), time.Now()
			go func() { ended <- call(ctx) }()
			select {
			case err := <-ended:
				require.ErrorIs(t, err, context.DeadlineExceeded, name)
				require.Equal(t, time.Second, time.Since(began), name)
			case <-time.After(time.Minute):
				require.Fail(t, "it waits on", name)
			}
			cancel()
		}
		silent.Store(false)
		require.NoError(t, <-started)
		require.NoError(t, e.Close(t.Context()))
	})
}

// Calls that commit by themselves, and are the first to find that the log does not answer, leave as well; the commit that they have begun
// goes on, and counts when the log answers.
func TestCommitsGoOnWithoutTheirCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, silent := openOnSilentLog(t)
		def := define(t, "name: w\nstart: a\nnodes: [{id: a, wait: {event: go}}]\n")
		keep := func(context.Context) (any, error) { return "out", nil }
		isThere := func(id workflow.RunID) bool { return errorOf(e.Summary(t.Context(), id)) == nil }
		made, asked := 0, 0
		effect := func(context.Context) (any, error) { made++; return "out", nil }
		isKept := func() bool { return errorOf(e.Once(t.Context(), "kept", nil)) == nil }
		for _, c := range []struct {
			name string
			call func(context.Context) error
			done func() bool
		}{
			{"Purge", func(ctx context.Context) error { return e.Purge(ctx, "ended") }, func() bool { return !isThere("ended") }},
			{"Fork", func(ctx context.Context) error { return e.Fork(ctx, "live", "fork", pawl.ForkOptions{}) }, func() bool { return isThere("fork") }},
			// It asks the log before it makes the effect, so that a caller who leaves has made none.
			{"Once", func(ctx context.Context) error { return errorOf(e.Once(ctx, "new", effect)) }, func() bool { asked++; return asked == 2 && made == 0 }},
			{"Forget", func(ctx context.Context) error { return e.Forget(ctx, "kept") }, func() bool { return !isKept() }},
			{"ForgetBefore", func(ctx context.Context) error { return errorOf(e.ForgetBefore(ctx, time.Now().Add(time.Hour))) }, func() bool { return !isKept() }},
		} {
			for _, id := range []workflow.RunID{"live", "ended"} {
				require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: def}, nil))
			}
			require.NoError(t, e.Cancel(t.Context(), "ended", "for the test"))
			require.NoError(t, errorOf(e.Once(t.Context(), "kept", keep)))
			require.False(t, c.done(), c.name)
			silent.Store(true)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			began := time.Now()
			require.ErrorIs(t, c.call(ctx), context.DeadlineExceeded, c.name)
			require.Equal(t, time.Second, time.Since(began), c.name)
			cancel()
			silent.Store(false)
			<-time.After(time.Minute)
			require.True(t, c.done(), c.name)
		}
		require.NoError(t, errorOf(e.PutBlob(t.Context(), strings.NewReader("old"), "")))
		<-time.After(2 * time.Minute)
		silent.Store(true)
		for _, call := range []func(context.Context) error{
			func(ctx context.Context) error { return errorOf(e.CollectBlobs(ctx, time.Minute)) }, // which asks the log
			func(ctx context.Context) error { return e.Forget(ctx, "kept") },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			require.ErrorIs(t, call(ctx), context.DeadlineExceeded)
			cancel()
		}
		require.NoError(t, e.Close(t.Context())) // after a last while
	})
}
