package store

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testhook"
)

// Every commit is synced, here and not by SQLite, unless the directory was opened for less.
func TestDurabilityOfCommits(t *testing.T) {
	for durability, synced := range map[Durability]bool{PowerLoss: true, ProcessCrash: false} {
		d, err := Open(t.TempDir(), Options{Durability: durability})
		require.NoError(t, err)
		var got int64
		require.NoError(t, d.readIndex(func(db *sqlite.Conn) error {
			return db.Each(`PRAGMA synchronous`, func(r *sqlite.Row) error { got = r.Int64(0); return nil })
		}))
		require.EqualValues(t, 1, got) // NORMAL
		require.Equal(t, synced, d.log.file != nil)
		o := start(t, d, "r1")
		o.do(state.Start{}, startRun(nil))
		if synced { // the file that SQLite writes is the one that is synced
			log, err := os.Stat(d.pathOf(indexWAL))
			require.NoError(t, err)
			file, err := d.log.file.Stat()
			require.NoError(t, err)
			require.True(t, os.SameFile(log, file))
		}
		require.NoError(t, d.Close())
	}
}

// A commit whose sync fails may be lost: it is not acknowledged, and nothing is committed
// behind it.
func TestAFailedSyncFailsTheDirectory(t *testing.T) {
	d := open(t, t.TempDir())
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil))
	broken, err := os.Open(d.pathOf(indexWAL))
	require.NoError(t, err)
	require.NoError(t, broken.Close())
	d.mu.Lock()
	kept := d.log.file
	d.log.file = broken // a sync of it fails
	d.mu.Unlock()
	require.NoError(t, kept.Close())
	require.ErrorIs(t, d.updateIndex(func(*sqlite.Conn) error { return nil }), ErrUnknown)
	require.ErrorIs(t, d.updateIndex(func(*sqlite.Conn) error { return nil }), ErrFailed)
	_ = d.Close()
}

// A log that becomes long has zeros behind its end, which change nothing: what a crash leaves
// of it opens with everything that was committed.
func TestALongLogHasZerosBehindIt(t *testing.T) {
	d := withoutRedo(t, open(t, t.TempDir()))
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil))
	frames := func() int {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.checkpoints.frames
	}
	for frames()*walFrame < reserveFrom+reserveStep/2 {
		o.do(state.Heartbeat{})
	}
	size := walSize(t, d)
	require.Greater(t, size, int64(frames()*walFrame+reserveRest))
	text, err := os.ReadFile(d.pathOf(indexWAL))
	require.NoError(t, err)
	end := len(bytes.TrimRight(text, "\x00"))
	require.Less(t, end, len(text)-reserveRest/2)
	require.NoError(t, sqlite.CheckWAL(text))
	o.do(state.Heartbeat{})
	require.Equal(t, size, walSize(t, d), "it grows although it has room")

	copied := open(t, crashed(t, d.path))
	head, err := copied.Head("r1")
	require.NoError(t, err)
	require.Equal(t, o.run.Head().Seq, head.Seq)
	for frames()*walFrame < reserveFrom+3*reserveStep { // it gets more as it needs more
		o.do(state.Heartbeat{})
	}
	require.NoError(t, d.checkpointNow())
	size = walSize(t, d)
	for range 100 {
		o.do(state.Heartbeat{})
	}
	require.Equal(t, size, walSize(t, d), "it has begun anew in its old room")
	require.NoError(t, d.Close())
	require.NoFileExists(t, filepath.Join(d.path, indexWAL))
}

// Records that move out of the redo log are not synced until another transaction is to stand behind them: a log
// that a loss of power leaves with a hole would be refused.
func TestWhatMovesIsSyncedBeforeTheNextTransaction(t *testing.T) {
	hook := &testhook.Hook{}
	d := openWith(t, t.TempDir(), Options{Hook: hook})
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil))
	unsynced := func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.log.unsynced
	}
	move := func() {
		o.do(state.Heartbeat{})
		require.NoError(t, d.moveBehind(context.Background()))
		require.True(t, unsynced())
	}
	var inside []bool
	defer hook.OnHit(func(point string) { // with the lock
		if point == "commit.inside" || point == "redo.move" {
			inside = append(inside, d.log.unsynced)
		}
	})()
	move()
	move()
	start(t, d, "r2").do(state.Start{}, startRun(nil))
	require.Equal(t, []bool{false, false, false}, inside)
	require.False(t, unsynced())

	move()
	broken, err := os.Open(d.pathOf(indexWAL))
	require.NoError(t, err)
	require.NoError(t, broken.Close())
	d.mu.Lock()
	kept := d.log.file
	d.log.file = broken // a sync of it fails
	d.mu.Unlock()
	require.NoError(t, kept.Close())
	err = d.updateIndex(func(*sqlite.Conn) error { return nil })
	require.ErrorIs(t, err, ErrFailed)
	require.NotErrorIs(t, err, ErrUnknown, "nothing of it is written")
	_ = d.Close()
}

// A log that could not be synced once is not taken for synced the next time: the system does not tell twice what it has lost.
func TestSyncOfTheLogFails(t *testing.T) {
	d := openWith(t, t.TempDir(), Options{Durability: ProcessCrash})
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
	require.NoError(t, o.file())
	o.do(state.Heartbeat{Token: 1})
	fails := true
	onStage(d, func(now flushStage) error {
		if now == syncing && fails {
			fails = false
			return syscall.EIO
		}
		return nil
	})
	first := o.headFile()
	require.NoError(t, o.file(), "the index names the new file")
	require.FileExists(t, d.pathOf(first), "it may be needed after a loss of power")
	require.ErrorIs(t, d.Err(), ErrFailed)
	require.ErrorIs(t, d.Err(), syscall.EIO)
	<-d.Failed()
}

// The files of a purged run stay where the log could not be synced, also when it seems to be synced later: after a loss of power its row
// may be there again.
func TestASyncThatFailsKeepsPurgedFiles(t *testing.T) {
	d := openWith(t, t.TempDir(), Options{Durability: ProcessCrash})
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
	o.do(state.TaskCompleted{Token: 1, Attempt: 1}, decision.CompleteToken{Token: 1}, decision.CompleteRun{At: at(9)})
	require.NoError(t, o.file())
	file := d.pathOf(o.headFile())
	require.NoError(t, o.run.Close())
	fails := true
	onStage(d, func(now flushStage) error {
		if now == syncing && fails {
			fails = false
			return syscall.EIO
		}
		return nil
	})
	require.ErrorIs(t, d.Purge("r1", ""), syscall.EIO)
	require.ErrorIs(t, d.removeLeft(), ErrFailed)
	_ = d.Close() // it has failed
	require.FileExists(t, file)
}
