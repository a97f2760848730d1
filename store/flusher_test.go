package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// TestFlushIsRepeated fails a flush at every stage before the index knows, and
// tries again with the same handle.
func TestFlushIsRepeated(t *testing.T) {
	for _, at := range []flushStage{built, renamed, synced} {
		t.Run(string(at), func(t *testing.T) {
			d := open(t, t.TempDir())
			o := start(t, d, "r1")
			o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
			fails := true
			onStage(d, func(now flushStage) error {
				if now == at && fails {
					return errors.New("no")
				}
				return nil
			})
			require.ErrorContains(t, o.file(), "no")
			o.do(state.Heartbeat{Token: 1}, decision.AppendData{Path: []string{"state", "x"}, Value: "y"})
			require.ErrorContains(t, o.file(), "no")
			require.Equal(t, 2, logged(t, d))
			fails = false
			o.do(state.Heartbeat{Token: 1}, decision.AppendData{Path: []string{"state", "x"}, Value: "z"})
			require.NoError(t, o.file())
			require.Zero(t, logged(t, d))
			require.Equal(t, o.state.AllRows(), load(t, d, "r1").state.AllRows())
			require.Len(t, all(t, d.History("r1")), 3)
		})
	}
}

// TestFileOfAnEndIsWrittenLater fails the only flush of runs that have ended: nobody asks for another one.
func TestFileOfAnEndIsWrittenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, t.TempDir())
		fails := 3
		onStage(d, func(now flushStage) error {
			if now == built && fails > 0 {
				fails--
				return errors.New("no")
			}
			return nil
		})
		goesOn := start(t, d, "r1")
		goesOn.do(state.Start{}, startRun(nil))
		require.ErrorContains(t, goesOn.file(), "no")
		ended := start(t, d, "r2")
		ended.five(nil)
		require.ErrorContains(t, ended.file(), "no")
		require.Equal(t, 7, logged(t, d))
		<-time.After(time.Hour)
		require.Equal(t, 1, logged(t, d), "of the run that goes on, whose owner asks again")
		require.Zero(t, fails)
		ended.same(d)
		require.NoError(t, d.Close())
	})
}

// TestFlushesKeepTheirOrder has a flush fail while the next one comes: both are
// flushed then, the older one first.
func TestFlushesKeepTheirOrder(t *testing.T) {
	d := open(t, t.TempDir())
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
	second := make(chan error, 1)
	fails := true
	onStage(d, func(now flushStage) error {
		if now != built || !fails {
			return nil
		}
		fails = false
		o.do(state.Heartbeat{Token: 1}, decision.AppendData{Path: []string{"state", "x"}, Value: "y"})
		events := o.events
		o.events = nil
		o.run.Flush(o.state.TakeChanges(), events, func(err error) { second <- err })
		return errors.New("no")
	})
	require.ErrorContains(t, o.file(), "no")
	require.NoError(t, <-second)
	require.Zero(t, logged(t, d))
	o.same(d)
	require.Len(t, all(t, d.History("r1")), 2)
}

// TestLoadWaitsForAQueuedFlush loads a run whose flush no worker has taken yet:
// what is loaded is what the file lacks after it.
func TestLoadWaitsForAQueuedFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := &testhook.Hook{}
		hook.SetFlushWorkers(1)
		d := openWith(t, t.TempDir(), Options{Hook: hook})
		first, o := start(t, d, "r1"), start(t, d, "r2")
		first.do(state.Start{}, startRun(nil))
		o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
		held, gate := make(chan struct{}, 1), make(chan struct{})
		onStage(d, func(now flushStage) error {
			if now == built && len(held) == 0 {
				held <- struct{}{}
				<-gate
			}
			return nil
		})
		first.run.Flush(first.state.TakeChanges(), first.events, nil)
		synctest.Wait()
		o.run.Flush(o.state.TakeChanges(), o.events, nil)
		loaded := make(chan *owner, 1)
		go func() { loaded <- load(t, d, "r2") }()
		synctest.Wait()
		require.Empty(t, loaded)
		close(gate)
		again := <-loaded
		require.Empty(t, again.run.unflushed)
		again.do(state.Heartbeat{Token: 1}, decision.AppendData{Path: []string{"state", "x"}, Value: "y"})
		require.NoError(t, again.file())
		again.same(d)
		require.NoError(t, d.Close())
	})
}

// A folder for files that are built is made again if somebody has removed it.
func TestFlushWithoutTmp(t *testing.T) {
	d := open(t, t.TempDir())
	for id, text := range map[workflow.RunID]string{"small": "x", "large": strings.Repeat("x", 2*maxInMemory)} {
		o := start(t, d, id)
		o.do(state.Start{}, startRun(map[string]any{"x": text}), createToken(1, "start"), dispatch(1))
		require.NoError(t, os.RemoveAll(d.pathOf(tmpDir)))
		require.NoError(t, o.file())
		o.same(d)
	}
	require.NoError(t, os.RemoveAll(d.pathOf(tmpDir)))
	require.NoError(t, d.reserveSpace(1))
	require.DirExists(t, d.pathOf(tmpDir))
}

// TestFlushWithoutADirectory makes a flush fail for real, and come back.
func TestFlushWithoutADirectory(t *testing.T) {
	d := open(t, t.TempDir())
	o := start(t, d, "r1")
	o.five(nil)
	runs := filepath.Join(d.path, runsDir)
	require.NoError(t, os.RemoveAll(runs))
	require.ErrorIs(t, o.file(), os.ErrNotExist)
	require.NoError(t, os.Mkdir(runs, 0o700))
	again := load(t, d, "r1")
	require.Equal(t, o.state.AllRows(), again.state.AllRows())
	require.NoError(t, again.file())
}

// TestManyFiles flushes more runs at a time than one batch takes, while some of
// them go on.
func TestManyFiles(t *testing.T) {
	d := openWith(t, t.TempDir(), Options{Durability: ProcessCrash})
	const runs = 3 * maxFlushBatch
	var wg sync.WaitGroup
	for i := range runs {
		o := start(t, d, workflow.RunID(fmt.Sprint(i)))
		o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
		for n := range i % 3 {
			wg.Add(1)
			events := o.events
			o.events = nil
			o.run.Flush(o.state.TakeChanges(), events, func(err error) {
				if err != nil {
					t.Error(err)
				}
				wg.Done()
			})
			o.do(state.Heartbeat{Token: 1}, decision.SetData{Path: []string{"state", "n"}, Value: int64(n)})
		}
	}
	wg.Wait()
	for i := range runs {
		s, err := d.State(workflow.RunID(fmt.Sprint(i)))
		require.NoError(t, err)
		require.Len(t, s.Section("state"), min(i%3, 1))
	}
}

// TestReadersSeeOneCommit reads while a run goes on and is flushed all the time.
func TestReadersSeeOneCommit(t *testing.T) {
	d := openWith(t, t.TempDir(), Options{Durability: ProcessCrash})
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				s, err := d.State("r1")
				if err != nil {
					t.Error(err)
					return
				}
				n := s.Section("state")["n"]
				if list, _ := s.Section("state")["list"].([]any); n != nil && n != int64(len(list)) {
					t.Errorf("%v elements, want %v", len(list), n)
				}
				seq := int64(0)
				for r, err := range d.History("r1") {
					if seq++; err != nil || r.Seq != seq {
						t.Errorf("record %d: %d %v", seq, r.Seq, err)
					}
				}
			}
		})
	}
	for n := range harness.Figure(10, 40, 40) {
		o.do(state.Heartbeat{Token: 1}, decision.AppendData{Path: []string{"state", "list"}, Value: int64(n)},
			decision.SetData{Path: []string{"state", "n"}, Value: int64(n + 1)})
		require.NoError(t, o.file())
	}
	close(stop)
	wg.Wait()
}

// Files of runs that have ended are made together, soon; that of a run which goes on is made at once, and so are all when
// there are several, or somebody waits for one. Where one run commits at a time, and each commit is synced, few are several.
func TestEndedRunsAreFiledTogether(t *testing.T) {
	wanted := func(t *testing.T, d *Dir) {
		_, _, _, err := d.Load("run-0")
		require.NoError(t, err)
	}
	for name, c := range map[string]struct {
		ended  int
		also   func(t *testing.T, d *Dir)
		batch  int
		waited time.Duration
		lone   bool
		kept   Durability
	}{
		"one":                        {ended: 1, batch: 1, waited: gatherFor},
		"some":                       {ended: gatherRuns - 1, batch: gatherRuns - 1, waited: gatherFor},
		"many":                       {ended: gatherRuns, batch: gatherRuns},
		"one goes on":                {ended: 3, also: func(t *testing.T, d *Dir) { flushRunning(t, d) }, batch: 4},
		"one is wanted":              {ended: 3, also: wanted, batch: 3},
		"it closes":                  {ended: 3, also: func(t *testing.T, d *Dir) { require.NoError(t, d.Close()) }, batch: 3},
		"fewer than a few, lone":     {ended: gatherFew - 1, batch: gatherFew - 1, waited: gatherFor, lone: true},
		"a few, lone":                {ended: gatherFew, batch: gatherFew, lone: true},
		"a few, lone, not synced":    {ended: gatherFew, batch: gatherFew, waited: gatherFor, lone: true, kept: ProcessCrash},
		"a few, some commit at once": {ended: gatherFew, batch: gatherFew, waited: gatherFor},
		"one is wanted, and lone by now": {ended: gatherFew, batch: gatherFew, also: func(t *testing.T, d *Dir) {
			synctest.Wait()
			d.committer.single.Store(alone)
			wanted(t, d)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hook := &testhook.Hook{}
				hook.SetFlushWorkers(1)
				d := openWith(t, t.TempDir(), Options{Hook: hook, Durability: c.kept})
				var mu sync.Mutex
				begin, batches, waited, begun := time.Now(), []int{}, time.Duration(0), 0
				hook.OnHit(func(point string) {
					mu.Lock()
					defer mu.Unlock()
					switch point {
					case "file.begin":
						begun++
						waited = time.Since(begin)
					case "file.built":
						batches, begun = append(batches, begun), 0
					}
				})
				owners := make([]*owner, c.ended)
				for i := range owners {
					owners[i] = start(t, d, workflow.RunID(fmt.Sprint("run-", i)))
					owners[i].five(nil)
				}
				if d.committer.single.Store(0); c.lone {
					d.committer.single.Store(alone)
				}
				for _, o := range owners {
					o.run.Flush(o.state.TakeChanges(), o.events, nil)
				}
				if c.also != nil {
					c.also(t, d)
				}
				<-time.After(time.Second)
				require.NoError(t, d.Close())
				mu.Lock()
				defer mu.Unlock()
				require.Equal(t, []int{c.batch}, batches)
				require.Equal(t, c.waited, waited)
			})
		})
	}
}

// flushRunning makes a run that goes on, and flushes it.
func flushRunning(t *testing.T, d *Dir) {
	o := start(t, d, "goes on")
	o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
	o.run.Flush(o.state.TakeChanges(), o.events, nil)
}

// A run that goes on does not wait for others either if it asks while a file of it is made.
func TestARunThatGoesOnIsFiledAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := &testhook.Hook{}
		hook.SetFlushWorkers(1)
		d := openWith(t, t.TempDir(), Options{Hook: hook})
		o := start(t, d, "r")
		o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
		begin, filed := time.Now(), make(chan time.Duration, 1)
		reset := func() {}
		reset = onStage(d, func(now flushStage) error {
			if now == built {
				reset()
				o.do(state.Heartbeat{Token: 1}, decision.AppendData{Path: []string{"state", "x"}, Value: "y"})
				events := o.events
				o.events = nil
				o.run.Flush(o.state.TakeChanges(), events, func(error) { filed <- time.Since(begin) })
			}
			return nil
		})
		o.run.Flush(o.state.TakeChanges(), o.events, nil)
		require.Zero(t, <-filed)
		require.NoError(t, d.Close())
	})
}
