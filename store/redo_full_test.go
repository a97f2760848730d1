package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/redo"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/workflow"
)

// limitPages bounds how large pawl.db may become, as a full disk does.
func limitPages(t *testing.T, d *Dir, pages int) {
	require.NoError(t, d.readIndex(func(db *sqlite.Conn) error { return db.Script(fmt.Sprintf(`PRAGMA max_page_count=%d`, pages)) }))
}

// TestListsOnAFullDisk: what pawl.db lacks cannot move there, and lists have it all the same; nothing of it is written.
func TestListsOnAFullDisk(t *testing.T) {
	d := open(t, t.TempDir())
	const runs = 30
	for n := range runs {
		o := start(t, d, workflow.RunID(fmt.Sprint("r", n)))
		o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
		for range 10 {
			o.do(state.Heartbeat{Token: 1}, decision.SetData{Path: []string{"state", "x"}, Value: strings.Repeat("x", 1000)})
		}
		o.do(state.Pause{}, decision.PauseRun{})
	}
	for range 2 {
		paused := 0
		require.NoError(t, d.readIndex(func(db *sqlite.Conn) error {
			return d.readMoved(func() error {
				return db.Each(`SELECT seq, key & 4294967295 FROM runs JOIN log ON key >> 32 = num WHERE status = 2 AND seq = key & 4294967295`, func(r *sqlite.Row) error {
					paused++
					require.EqualValues(t, 12, r.Int64(0))
					return nil
				})
			})
		}))
		require.Equal(t, runs, paused)
		behind, records := behind(d)
		require.Equal(t, runs, behind)
		require.Equal(t, 11*runs, records)
		stored, seq := inTables(t, d, "r1")
		require.Equal(t, runs, stored)
		require.EqualValues(t, 1, seq)
		counts, err := d.Counts(context.Background())
		require.NoError(t, err)
		require.Equal(t, []RunCount{{"fan", workflow.RunPaused, runs}}, counts)
	}
	reset := onStage(d, func(now flushStage) error {
		if now == moving {
			return syscall.ENOSPC
		}
		return nil
	})
	listed := 0
	for h, err := range d.HeadsUntil(context.Background(), RunFilter{Status: []workflow.RunStatus{workflow.RunPaused}}) {
		require.NoError(t, err)
		require.EqualValues(t, 12, h.Seq)
		listed++
	}
	require.Equal(t, runs, listed)
	stored, _ := inTables(t, d, "r1")
	require.Equal(t, runs, stored, "nothing has moved")
	reset()
	limitPages(t, d, 1) // pawl.db may not even have them in memory then
	_, err := d.Unfinished()
	require.ErrorIs(t, err, ErrNoSpace)
	_, err = d.Head("r1")
	require.NoError(t, err)
	_, err = d.Backup(context.Background(), filepath.Join(t.TempDir(), "copy"), nil)
	require.ErrorIs(t, err, ErrNoSpace)
	limitPages(t, d, 1<<20)
	_, err = d.Backup(context.Background(), filepath.Join(t.TempDir(), "copy"), nil)
	require.NoError(t, err)
}

// TestCloseOnAFullDisk: what cannot move stays in the redo log, and the next Open has it.
func TestCloseOnAFullDisk(t *testing.T) {
	d, o := ahead(t, Options{})
	onStage(d, func(now flushStage) error {
		if now == moving {
			return syscall.ENOSPC
		}
		return nil
	})
	require.ErrorIs(t, d.Close(), ErrNoSpace)
	again := open(t, d.path)
	head, err := again.Head("r1")
	require.NoError(t, err)
	require.Equal(t, o.run.Head().Seq, head.Seq)
	require.Equal(t, workflow.RunPaused, head.Status)
	o.same(again)
}

// TestARegionIsFreedWhenThereIsRoomAgain: the redo log takes commits again then.
func TestARegionIsFreedWhenThereIsRoomAgain(t *testing.T) {
	hook := &testhook.Hook{}
	hook.SetRedoBytes(3000)
	d := openWith(t, t.TempDir(), Options{Hook: hook, Durability: ProcessCrash})
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
	limitPages(t, d, 1)
	step := func() error {
		err := o.try(state.Heartbeat{Token: 1}, decision.SetData{Path: []string{"state", "n"}, Value: strings.Repeat("x", 300)})
		d.redo.running.Wait()
		return err
	}
	err := step()
	for n := 0; err == nil; n++ {
		require.Less(t, n, 500)
		err = step()
	}
	require.ErrorIs(t, err, ErrNoSpace)
	limitPages(t, d, 1<<20)
	d.mu.Lock()
	d.redo.failed = d.redo.failed.Add(-recycleAgain) // the pause is over
	d.mu.Unlock()
	o = load(t, d, "r1")
	for range 20 {
		require.NoError(t, step())
	}
	runs, _ := behind(d)
	require.Positive(t, runs, "the redo log takes nothing any more")
}

// TestASyncThatFailsWhileARegionIsFreed is not passed over, whatever the reason: no later one would tell what is lost.
func TestASyncThatFailsWhileARegionIsFreed(t *testing.T) {
	hook := &testhook.Hook{}
	hook.SetRedoBytes(3000)
	d := openWith(t, t.TempDir(), Options{Hook: hook})
	f, err := os.OpenFile(d.pathOf(redoFile), os.O_RDWR, 0)
	require.NoError(t, err)
	var fails, failed atomic.Bool
	d.mu.Lock()
	require.NoError(t, d.redo.file.Close())
	d.redo.file = redo.NewLog(f, uint64(d.epoch), 3000, nil, func(f *os.File) error {
		if fails.Swap(false) {
			failed.Store(true)
			return syscall.ENOSPC // of a file system that looks for room when it writes back
		}
		return syncData(f)
	})
	d.mu.Unlock()
	hook.OnHit(func(point string) {
		if point == "redo.moved" && !failed.Load() {
			fails.Store(true)
		}
	})
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
	for n := 0; err == nil; n++ {
		require.Less(t, n, 500)
		err = o.try(state.Heartbeat{Token: 1})
		d.redo.running.Wait()
	}
	require.True(t, failed.Load())
	require.ErrorIs(t, d.Err(), ErrFailed)
}

// TestFramesAreSynced, each before its commit is acknowledged, unless the directory was opened for less.
func TestFramesAreSynced(t *testing.T) {
	for durability, each := range map[Durability]int64{PowerLoss: 1, ProcessCrash: 0} {
		d, o := ahead(t, Options{Durability: durability})
		require.NoError(t, o.file())
		resume, err := d.pauseRedo(context.Background())
		require.NoError(t, err)
		f, err := os.OpenFile(d.pathOf(redoFile), os.O_RDWR, 0)
		require.NoError(t, err)
		var synced atomic.Int64
		d.mu.Lock()
		require.NoError(t, d.redo.file.Close())
		d.redo.file = redo.NewLog(f, uint64(d.epoch), redo.RegionBytes, nil, func(*os.File) error { synced.Add(1); return nil })
		d.mu.Unlock()
		resume()
		o.do(state.Resume{}, decision.ResumeRun{}) // in pawl.db
		require.Zero(t, synced.Load())
		for n := range int64(3) {
			o.do(state.Heartbeat{Token: 1})
			require.Equal(t, each*(n+1), synced.Load())
		}
	}
}

// TestRepairBehindADamagedFrame: a frame that has changed damages the runs that it is of, and no others.
func TestRepairBehindADamagedFrame(t *testing.T) {
	d, _ := ahead(t, Options{})
	other := start(t, d, "r2")
	other.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
	for range 5 {
		other.do(state.Heartbeat{Token: 1})
	}
	path := crashed(t, d.path)
	require.NoError(t, flipAt(filepath.Join(path, redoFile), 4096+30)) // the first frame: record 2 of r1
	report, err := Verify(path)
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(report.Findings), "r1")
	require.NotContains(t, fmt.Sprint(report.Findings), "r2")
	repaired := filepath.Join(t.TempDir(), "repaired")
	_, err = Repair(path, repaired)
	require.NoError(t, err)
	again := open(t, repaired)
	head, err := again.Head("r2")
	require.NoError(t, err)
	require.GreaterOrEqual(t, head.Seq, other.run.Head().Seq)
	head, err = again.Head("r1")
	require.NoError(t, err)
	require.Less(t, head.Seq, int64(5))
}

// TestDamageBehindACrashWithinOpen: the redo log says by itself that its frames were synced.
func TestDamageBehindACrashWithinOpen(t *testing.T) {
	d, _ := ahead(t, Options{})
	path := crashed(t, d.path)
	hook := &testhook.Hook{}
	middle := ""
	hook.OnHit(func(point string) {
		if point == "redo.taken" {
			middle = crashed(t, path)
		}
	})
	require.NoError(t, openWith(t, path, Options{Hook: hook}).Close())
	require.NotEmpty(t, middle)
	require.NoError(t, flipAt(filepath.Join(middle, redoFile), 4096+30))
	_, err := Open(middle, Options{})
	require.ErrorIs(t, err, ErrCorrupt)
	report, err := Verify(middle)
	require.NoError(t, err)
	require.Positive(t, report.Damage)
}
