package store

import (
	"io/fs"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/redo"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
)

// TestLargeValuesGoIntoTheRedoLog: pawl.db has nothing of them, a crash loses none, and the file takes them from memory.
func TestLargeValuesGoIntoTheRedoLog(t *testing.T) {
	harness.InTurn(t, 4)
	t.Parallel()
	for _, durability := range harness.Today(t, 2, []Durability{PowerLoss, ProcessCrash}) {
		d, o := ahead(t, Options{Durability: durability})
		stored, _ := inTables(t, d, "r1")
		for range 4 {
			o.do(state.Heartbeat{Token: 1}, large(maxAdvance+100_000))
			o.do(state.Heartbeat{Token: 1}, large(2*partBytes))
			o.do(state.Heartbeat{Token: 1}, large(10))
		}
		records, _ := inTables(t, d, "r1")
		require.Equal(t, stored, records)
		parts, _ := partsOf(t, d)
		require.Zero(t, parts)
		o.same(d)
		o.same(open(t, crashed(t, d.path)))

		again := open(t, crashed(t, d.path))
		load(t, again, "r1").do(state.Heartbeat{Token: 1}, large(2*partBytes))
		fileBehind(t, d, o, func() error { return o.try(state.Heartbeat{Token: 1}, large(2*partBytes)) })
		records, _ = inTables(t, d, "r1")
		require.Zero(t, records, "what came while the file was written stays in the redo log: it weighs as much as many")
		require.Zero(t, d.redo.shunned)
		o.same(d)
		o.same(open(t, crashed(t, d.path)))
		require.NoError(t, o.file())
		require.NoError(t, d.Close())
		report, err := Verify(d.path)
		require.NoError(t, err)
		require.Empty(t, report.Findings)
	}
}

// TestLargeRecordsMoveOneByOne: a transaction that moves them holds no commit up for longer than others do; and for each that
// had to move, further ones go into pawl.db at once.
func TestLargeRecordsMoveOneByOne(t *testing.T) {
	harness.InTurn(t, 4)
	t.Parallel()
	d, o := ahead(t, Options{Durability: ProcessCrash})
	const n = 5
	for range n {
		o.do(state.Heartbeat{Token: 1}, large(2*partBytes))
	}
	moves, reset := countMoves(d)
	_, err := d.Backup(t.Context(), filepath.Join(t.TempDir(), "copy"), nil)
	require.NoError(t, err)
	reset()
	require.GreaterOrEqual(t, moves.Load(), int32(n))
	for range n * shunFactor {
		o.do(state.Heartbeat{Token: 1}, large(2*partBytes))
	}
	parts, records := partsOf(t, d)
	require.Equal(t, n*shunFactor, records, "%d parts", parts)
	o.do(state.Heartbeat{Token: 1}, large(2*partBytes-1000))
	o.do(state.Heartbeat{Token: 1}, large(2*partBytes))
	_, records = partsOf(t, d)
	require.LessOrEqual(t, records, n*shunFactor+1)
	runs, _ := behind(d)
	require.Equal(t, 1, runs)
	o.same(d)
	o.same(open(t, crashed(t, d.path)))
}

// TestARegionWaitsForLargeFiles: a region that is to be free waits for the file of a large run that is being written, and moves
// nothing that the file has.
func TestARegionWaitsForLargeFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, o := ahead(t, Options{Durability: ProcessCrash})
		for range 3 {
			o.do(state.Heartbeat{Token: 1}, large(2*partBytes))
		}
		moves, reset := countMoves(d)
		defer reset()
		switchRegion(d)
		recycled := make(chan bool)
		resetStage := onStage(d, func(now flushStage) error {
			if now == built {
				go func() {
					d.recycleRegion()
					close(recycled)
				}()
				synctest.Wait() // until it waits for this file
			}
			return nil
		})
		defer resetStage()
		require.NoError(t, o.file())
		<-recycled
		require.Zero(t, moves.Load())
		parts, _ := partsOf(t, d)
		require.Zero(t, parts)
		o.same(open(t, crashed(t, d.path)))
	})
}

// TestReadSparse: a file is read as it is, whatever of it is zeros.
func TestReadSparse(t *testing.T) {
	d := open(t, t.TempDir())
	for _, size := range []int{0, 1, 64 << 10, 64<<10 + 1, 300_000} {
		want := make([]byte, size)
		for _, at := range []int{0, 64<<10 - 1, 64 << 10, 200_000, 299_999} {
			if at < size {
				want[at] = 1
			}
		}
		require.NoError(t, d.writeFile("sparse", want, false))
		got, err := d.readSparse("sparse")
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := d.readSparse("missing")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, d.root.Remove("sparse"))
}

// TestWeight: a record weighs by its bytes, and one of any weight moves.
func TestWeight(t *testing.T) {
	entry := func(bytes int) *runfile.Entry {
		return &runfile.Entry{Encoded: decision.Encoded{Message: make([]byte, bytes), Values: &codec.Values{}}}
	}
	all := []*runfile.Entry{entry(10), entry(10), entry(2 << 20), entry(10)}
	require.Equal(t, 3+1+256, weighRecords(all))
	for _, tt := range []struct{ from, limit, count, weight int }{
		{0, 1, 1, 1}, {0, 2, 2, 2}, {0, 258, 2, 2}, {0, 259, 3, 259}, {0, 300, 4, 260}, {2, 1, 1, 257}, {4, 1, 0, 0}, {0, 0, 1, 1},
	} {
		some, weight := cutWeight(all[tt.from:], tt.limit)
		require.Len(t, some, tt.count, tt)
		require.Equal(t, tt.weight, weight, tt)
	}
}

// TestAFlushWaitsWhereThereIsRoom: what all runs have not flushed is counted together.
func TestAFlushWaitsWhereThereIsRoom(t *testing.T) {
	d, o := ahead(t, Options{Durability: ProcessCrash})
	roomy := func() bool { _, _, roomy := o.run.Unflushed(); return roomy }
	require.True(t, roomy())
	other := start(t, d, "r2")
	other.do(state.Start{}, startRun(nil), large(10))
	for range 8 {
		other.do(state.Heartbeat{Token: 1}, large(2*partBytes))
	}
	_, bytes, _ := other.run.Unflushed()
	require.Greater(t, bytes, int64(16*partBytes))
	_, own, _ := o.run.Unflushed()
	require.Equal(t, bytes+own, d.unflushed.Load())
	d.unflushed.Add(2 * redo.RegionBytes)
	require.False(t, roomy())
	d.unflushed.Add(-2 * redo.RegionBytes)
	require.NoError(t, other.file())
	require.Equal(t, own, d.unflushed.Load())
	require.NoError(t, o.run.Close())
	require.NoError(t, o.run.Close())
	require.Zero(t, d.unflushed.Load())
}
