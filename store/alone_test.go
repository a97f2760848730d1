package store

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
)

// inCommitAlone reports whether the goroutine that calls it commits for itself.
func inCommitAlone() bool {
	text := make([]byte, 16<<10)
	return strings.Contains(string(text[:runtime.Stack(text, false)]), ".commitAlone(")
}

// singleCommits returns how many commits of one request were made one after the other. The
// committer answers before it unlocks: whoever comes earlier does not find itself alone.
func singleCommits(d *Dir) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return int(d.committer.single.Load())
}

// TestALoneRunCommitsItself: a run that commits alone hands nothing over, until another
// one commits at the same time.
func TestALoneRunCommitsItself(t *testing.T) {
	d := open(t, t.TempDir())
	o := start(t, d, "r1")
	byItself := false
	reset := d.hook.OnHit(func(name string) {
		if name == "commit.begin" {
			byItself = inCommitAlone()
		}
	})
	defer reset()
	o.do(state.Start{}, startRun(nil))
	require.False(t, byItself, "nobody knows yet whether it is alone")
	for range alone {
		o.do(state.Heartbeat{})
	}
	require.GreaterOrEqual(t, singleCommits(d), alone)
	o.do(state.Heartbeat{})
	require.True(t, byItself)
	load(t, d, "r1")

	d.mu.Lock() // while it is held, two requests come
	pair := make([]*commitRequest, 2)
	for i := range pair {
		pair[i] = &commitRequest{apply: func(*sqlite.Conn) error { return nil }, answer: make(chan error, 1)}
		d.committer.waiting.Add(1)
		d.committer.queue <- pair[i]
	}
	d.mu.Unlock()
	for _, r := range pair {
		require.NoError(t, <-r.answer)
	}
	require.Zero(t, singleCommits(d))
	o.do(state.Heartbeat{})
	require.False(t, byItself, "others commit as well")
}

// TestAPanicInALoneCommit fails the directory, because whoever called may go on.
func TestAPanicInALoneCommit(t *testing.T) {
	d := open(t, t.TempDir())
	for range alone + 1 {
		require.NoError(t, d.updateIndex(func(*sqlite.Conn) error { return nil }))
	}
	require.GreaterOrEqual(t, singleCommits(d), alone)
	require.Panics(t, func() { _ = d.updateIndex(func(*sqlite.Conn) error { panic("broken") }) })
	require.ErrorIs(t, d.Err(), ErrFailed)
	require.ErrorIs(t, d.updateIndex(func(*sqlite.Conn) error { return nil }), ErrFailed)
}

// TestACommitterThatEnds: if what a transaction calls ends the goroutine that commits, the directory fails, and nobody
// waits for ever: neither who is in that transaction, nor who waits for the next one or for room in the queue.
func TestACommitterThatEnds(t *testing.T) {
	path := t.TempDir()
	d, err := Open(path, Options{})
	require.NoError(t, err)
	nothing := func(*sqlite.Conn) error { return nil }
	for range alone + 1 { // the next one would commit alone
		require.NoError(t, d.updateIndex(nothing))
	}
	require.GreaterOrEqual(t, singleCommits(d), alone)
	d.mu.Lock() // while it is held, more come than the queue has room for
	var group sync.WaitGroup
	var unknown atomic.Int64
	for range maxQueue + 10 {
		group.Go(func() {
			err := d.updateIndex(func(*sqlite.Conn) error { runtime.Goexit(); return nil })
			if !errors.Is(err, ErrFailed) {
				t.Error(err)
			}
			if errors.Is(err, ErrUnknown) {
				unknown.Add(1)
			}
		})
	}
	for d.committer.waiting.Load() < maxQueue+10 {
		runtime.Gosched()
	}
	d.mu.Unlock()
	group.Wait()
	require.GreaterOrEqual(t, unknown.Load(), int64(1))
	require.LessOrEqual(t, unknown.Load(), int64(maxBatch))
	require.ErrorIs(t, d.Err(), ErrFailed)
	require.ErrorIs(t, d.updateIndex(nothing), ErrFailed)
	_, err = d.HasRun("r1")
	require.ErrorIs(t, err, ErrFailed)
	require.NoError(t, d.Close())
	require.NoError(t, open(t, path).updateIndex(nothing))
}

// TestACommitterThatEndsWhileItIsClosed: who waits is answered then, too, and Close comes back.
func TestACommitterThatEndsWhileItIsClosed(t *testing.T) {
	d, err := Open(t.TempDir(), Options{})
	require.NoError(t, err)
	var group sync.WaitGroup
	begun := make(chan struct{})
	group.Go(func() {
		err := d.updateIndex(func(*sqlite.Conn) error {
			close(begun)
			for !d.committer.stopped.Load() {
				runtime.Gosched()
			}
			runtime.Goexit()
			return nil
		})
		if !errors.Is(err, ErrUnknown) {
			t.Error(err)
		}
	})
	<-begun
	group.Go(func() { // it waits for its turn
		if err := d.updateIndex(func(*sqlite.Conn) error { return nil }); !errors.Is(err, ErrFailed) {
			t.Error(err)
		}
	})
	for d.committer.waiting.Load() < 1 {
		runtime.Gosched()
	}
	d.committer.stopped.Store(true) // as Close does
	group.Wait()
	require.ErrorIs(t, d.Err(), ErrFailed)
	require.NoError(t, d.Close())
}
