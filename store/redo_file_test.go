package store

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// fileBehind has the file of a run written, behind which the run commits more before it is named.
func fileBehind(t *testing.T, d *Dir, o *owner, commit func() error) {
	var failed error
	reset := onStage(d, func(now flushStage) error {
		if now == synced {
			failed = commit()
		}
		return nil
	})
	defer reset()
	require.NoError(t, o.file())
	require.NoError(t, failed)
}

// beats commits so many records that change nothing in the row of the run.
func (o *owner) beats(n int) error {
	for i := range n {
		if err := o.try(state.Heartbeat{Token: 1}, decision.SetData{Path: []string{"state", "beat"}, Value: int64(i)}); err != nil {
			return err
		}
	}
	return nil
}

// statusInTable returns the status that the row of a run in pawl.db names.
func statusInTable(t *testing.T, d *Dir, id workflow.RunID) (s workflow.RunStatus) {
	require.NoError(t, d.readIndex(func(db *sqlite.Conn) error {
		_, err := db.One(`SELECT status FROM runs WHERE id = ?`, func(r *sqlite.Row) error { s = workflow.RunStatus(r.Int64(0)); return nil }, string(id))
		return err
	}))
	return s
}

// TestRecordsBehindAFileStay: what has come in numbers while a file was written stays in the redo log when the file is
// named, and nothing is lost or said twice.
func TestRecordsBehindAFileStay(t *testing.T) {
	for _, durability := range []Durability{PowerLoss, ProcessCrash} {
		d, o := ahead(t, Options{Durability: durability, CountTenants: true})
		d.hook.SetTrimRecords(3)
		counted := []RunCount{{"fan", workflow.RunPaused, 1}}
		fileBehind(t, d, o, func() error { return o.beats(7) })
		records, seq := inTables(t, d, "r1")
		require.Zero(t, records)
		require.EqualValues(t, 5, seq, "the row is that of the file")
		require.Equal(t, workflow.RunPaused, statusInTable(t, d, "r1"))
		runs, left := behind(d)
		require.Equal(t, 1, runs)
		require.Equal(t, 7, left)
		require.Equal(t, o.run.Head().Seq, int64(12))
		o.same(d)

		for _, again := range []*Dir{open(t, crashed(t, d.path)), d} {
			counts, err := again.Counts(context.Background())
			require.NoError(t, err)
			require.Equal(t, counted, counts)
			o.same(again)
			head, err := again.Head("r1")
			require.NoError(t, err)
			head.File = o.run.Head().File
			require.Equal(t, o.run.Head(), head)
		}
		report, err := Verify(crashed(t, d.path))
		require.NoError(t, err)
		require.Zero(t, report.Damage, report.Findings)

		// The next file has them, a commit that changes the row, and again some behind it.
		o.do(state.Resume{}, decision.ResumeRun{})
		fileBehind(t, d, o, func() error { return o.beats(5) })
		records, seq = inTables(t, d, "r1")
		require.Zero(t, records)
		require.EqualValues(t, 13, seq)
		require.Equal(t, workflow.RunRunning, statusInTable(t, d, "r1"))
		counted[0].Status = workflow.RunRunning
		for _, again := range []*Dir{open(t, crashed(t, d.path)), d} {
			counts, err := again.Counts(context.Background())
			require.NoError(t, err)
			require.Equal(t, counted, counts)
			o.same(again)
		}
		runs, left = behind(d)
		require.Equal(t, 1, runs)
		require.Equal(t, 5, left)
	}
}

// TestARowThatChangesBehindAFile: pawl.db has the row as it was when the file was asked for, whatever has changed it since.
func TestARowThatChangesBehindAFile(t *testing.T) {
	for _, durability := range []Durability{PowerLoss, ProcessCrash} {
		d, o := ahead(t, Options{Durability: durability})
		d.hook.SetTrimRecords(3)
		fileBehind(t, d, o, func() error {
			if err := o.beats(5); err != nil {
				return err
			}
			return o.try(state.Resume{}, decision.ResumeRun{})
		})
		records, seq := inTables(t, d, "r1")
		require.Zero(t, records)
		require.EqualValues(t, 5, seq)
		require.Equal(t, workflow.RunPaused, statusInTable(t, d, "r1"))
		require.NoError(t, o.beats(1))
		for _, again := range []*Dir{open(t, crashed(t, d.path)), d} {
			counts, err := again.Counts(context.Background())
			require.NoError(t, err)
			require.Equal(t, []RunCount{{"fan", workflow.RunRunning, 1}}, counts)
			o.same(again)
		}

		// A handle that has not changed the row does not know what it was: then all moves.
		o = load(t, d, "r1")
		require.NoError(t, o.beats(1))
		fileBehind(t, d, o, func() error {
			if err := o.beats(5); err != nil {
				return err
			}
			return o.try(state.Pause{}, decision.PauseRun{})
		})
		_, seq = inTables(t, d, "r1")
		require.Equal(t, o.run.Head().Seq, seq)
		require.Equal(t, workflow.RunPaused, statusInTable(t, d, "r1"))
		o.same(d)
		o.same(open(t, crashed(t, d.path)))
	}
}

// TestALossOfPowerBehindAFile: wherever the redo log ends then, the run is what its file has, with the first of the records
// behind that.
func TestALossOfPowerBehindAFile(t *testing.T) {
	d, o := ahead(t, Options{Durability: ProcessCrash})
	d.hook.SetTrimRecords(3)
	fileBehind(t, d, o, func() error { return o.beats(7) })
	full, err := os.ReadFile(d.pathOf(redoFile))
	require.NoError(t, err)
	seen := map[int64]bool{}
	var sizes []int
	for size := 4096; size < len(full); size += harness.Stride(11) {
		sizes = append(sizes, size)
	}
	for _, size := range append(slices.Clip(halfOfDay(t, sizes)), len(full)) {
		path := crashed(t, d.path)
		require.NoError(t, os.WriteFile(filepath.Join(path, redoFile), full[:size], 0o600))
		again := open(t, path)
		head, err := again.Head("r1")
		require.NoError(t, err)
		require.Len(t, all(t, again.History("r1")), int(head.Seq))
		seen[head.Seq] = true
		require.NoError(t, again.Close())
	}
	require.Len(t, seen, 8, "those of the file, and with each further record")
	require.True(t, seen[5] && seen[12])
}

// TestRegionsBehindAFile: a region begins anew when it has only what files have, and the records of a run
// in the other one stay there.
func TestRegionsBehindAFile(t *testing.T) {
	d, o := ahead(t, Options{})
	d.hook.SetTrimRecords(3)
	fileBehind(t, d, o, func() error {
		switchRegion(d)
		return o.beats(7)
	})
	d.recycleRegion()
	_, left := behind(d)
	require.Equal(t, 7, left)
	require.True(t, d.redo.file.IsFree())
	o.same(d)
	o.same(open(t, crashed(t, d.path)))
}

// switchRegion has the other region take frames, as if the one that does were full.
func switchRegion(d *Dir) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.redo.file.Switch()
}

// TestAnOlderRegionBehindAFile: records behind a file that are in the older region move before that begins anew.
func TestAnOlderRegionBehindAFile(t *testing.T) {
	d, o := ahead(t, Options{Durability: ProcessCrash})
	d.hook.SetTrimRecords(3)
	fileBehind(t, d, o, func() error {
		if err := o.beats(2); err != nil {
			return err
		}
		switchRegion(d)
		return o.beats(7)
	})
	_, left := behind(d)
	require.Equal(t, 9, left)
	d.recycleRegion()
	_, left = behind(d)
	require.Zero(t, left)
	o.same(open(t, crashed(t, d.path)))
}

// TestARegionWithTheRow: a region whose records have moved, but not the row that it has, does not begin anew.
func TestARegionWithTheRow(t *testing.T) {
	t.Parallel()
	d, o := ahead(t, Options{Durability: ProcessCrash})
	switchRegion(d)
	require.NoError(t, o.beats(3))
	d.mu.Lock()
	_, err := d.moveRuns([]int64{o.run.row.Num}, 4, nil)
	d.mu.Unlock()
	require.NoError(t, err)
	d.recycleRegion()
	o.same(open(t, crashed(t, d.path)))
}

// TestARowBeyondItsFile: a row that has moved since the file was asked for is not set back.
func TestARowBeyondItsFile(t *testing.T) {
	d, o := ahead(t, Options{Durability: ProcessCrash})
	d.hook.SetTrimRecords(3)
	fileBehind(t, d, o, func() error {
		if err := o.beats(5); err != nil {
			return err
		}
		if err := d.moveBehind(context.Background()); err != nil {
			return err
		}
		return o.beats(7)
	})
	_, seq := inTables(t, d, "r1")
	require.EqualValues(t, 10, seq)
	o.same(d)
	o.same(open(t, crashed(t, d.path)))
}

// countMoves counts the transactions that move what the redo log has.
func countMoves(d *Dir) (moves *atomic.Int32, reset func()) {
	moves = new(atomic.Int32)
	return moves, d.hook.OnHit(func(at string) {
		if at == "redo.moved" {
			moves.Add(1)
		}
	})
}

// TestManyRecordsMoveInPieces: before a commit that goes into pawl.db, what the redo log has of the run moves there, some
// records at a time, also while a file of the run is written. A few move with the commit.
func TestManyRecordsMoveInPieces(t *testing.T) {
	harness.InTurn(t, 4)
	t.Parallel()
	d, o := ahead(t, Options{Durability: ProcessCrash})
	require.NoError(t, o.beats(2*moveOnce))
	moves, reset := countMoves(d)
	o.do(state.Heartbeat{}, large(maxLarge+10))
	require.EqualValues(t, 3, moves.Load())
	runs, left := behind(d)
	require.Zero(t, runs+left)
	require.NoError(t, o.beats(1))
	o.do(state.Heartbeat{}, large(maxLarge+10))
	require.EqualValues(t, 3, moves.Load())
	o.same(d)
	o.same(open(t, crashed(t, d.path)))

	require.NoError(t, o.beats(2*moveOnce))
	fileBehind(t, d, o, func() error { return o.try(state.Heartbeat{}, large(maxLarge+10)) })
	reset()
	require.EqualValues(t, 3+2, moves.Load())
	o.same(d)
	again := open(t, crashed(t, d.path))
	o = load(t, again, "r1")
	require.NoError(t, o.beats(2*moveOnce))
	o = load(t, again, "r1") // a handle that has appended nothing
	moves, reset = countMoves(again)
	o.do(state.Heartbeat{}, large(maxLarge+10))
	require.EqualValues(t, 2, moves.Load())
	require.NoError(t, o.beats(2*moveOnce))
	require.NoError(t, again.moveBehind(context.Background()))
	require.EqualValues(t, 2+2, moves.Load())
	require.NoError(t, o.beats(1))
	o.do(state.Heartbeat{}, large(maxLarge+10))
	require.EqualValues(t, 2+2, moves.Load(), "one record moves with the commit")
	reset()
	o.same(again)
}

// TestAMoveThatIsUndone: what a transaction that is rolled back was to move is forgotten.
func TestAMoveThatIsUndone(t *testing.T) {
	d, o := ahead(t, Options{})
	d.mu.Lock()
	r := d.redo.behind[o.run.row.Num]
	r.movedEntries, r.movedRow, r.movedTo = 2, true, 3
	d.redo.moved = append(d.redo.moved, movedRun{run: r})
	d.redo.clearMoved()
	left := []any{r.movedEntries, r.movedRow, r.movedTo}
	d.mu.Unlock()
	require.Equal(t, []any{0, false, int64(0)}, left)
}
