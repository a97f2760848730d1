package store

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/testhook"
)

// TestTheCommitterStepsBack: behind a batch of several requests those come into the next one that are about to come, and a
// lone caller waits for nobody.
func TestTheCommitterStepsBack(t *testing.T) {
	synctest.Test(t, testSteppingBack) // where no time passes
}

func testSteppingBack(t *testing.T) {
	hook := &testhook.Hook{}
	d := openWith(t, t.TempDir(), Options{Hook: hook})
	c, group := &d.committer, sync.WaitGroup{}
	// add hands a request over, that is in the queue when add returns: the committer must be busy.
	add := func() {
		n := len(c.queue)
		group.Go(func() {
			if err := d.updateIndex(func(*sqlite.Conn) error { return nil }); err != nil {
				t.Error(err)
			}
		})
		for len(c.queue) == n {
			runtime.Gosched()
		}
	}
	backs, come := 0, 0 // how often it stepped back, and how often somebody comes then
	hook.OnHit(func(point string) {
		if point == "commit.back" {
			if backs++; backs <= come {
				add()
			}
		}
	})
	commit := func(apply func()) (transactions int64) {
		before := d.commits.Load()
		require.NoError(t, d.updateIndex(func(*sqlite.Conn) error { apply(); return nil }))
		group.Wait()
		return d.commits.Load() - before
	}
	nothing := func() {}

	require.EqualValues(t, 2, commit(func() { add(); add() }), "two come while one is committed, and share a transaction")
	require.Zero(t, backs)
	come = 1
	require.EqualValues(t, 1, commit(nothing), "one comes when it steps back")
	require.Equal(t, 2, backs, "and might have brought another one")
	backs, come = 0, 5
	require.EqualValues(t, 1, commit(nothing))
	require.Equal(t, stepsBack, backs, "they come for ever")
	backs, come = 0, 0
	require.EqualValues(t, 1, commit(nothing))
	require.Equal(t, 1, backs, "there were three before")
	require.EqualValues(t, 1, commit(nothing))
	require.Equal(t, 1, backs, "there was one before")
	require.NoError(t, d.Close())
}

// TestWhoCanRunComesFirst: behind a batch of several, goroutines that can run hand their requests over before the next one.
func TestWhoCanRunComesFirst(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	all := 0
	for range 20 {
		synctest.Test(t, func(*testing.T) {
			queue, s := make(chan *commitRequest, 3), stepBack{last: 2}
			for range cap(queue) {
				go func() { queue <- nil }()
			}
			if s.letOthersCome(queue, nil); len(queue) == cap(queue) {
				all++
			}
			synctest.Wait()
		})
	}
	require.Greater(t, all, 10, "now and then the scheduler comes back at once")
}

// TestACommitterThatIsEndedWhileItStepsBack leaves nobody without an answer.
func TestACommitterThatIsEndedWhileItStepsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := &testhook.Hook{}
		d, err := Open(t.TempDir(), Options{Hook: hook})
		require.NoError(t, err)
		hook.OnHit(func(point string) {
			if point == "commit.back" {
				runtime.Goexit()
			}
		})
		var group sync.WaitGroup
		nothing := func(*sqlite.Conn) error { return nil }
		require.NoError(t, d.updateIndex(func(*sqlite.Conn) error { // two come meanwhile, and are the next batch
			for n := range 2 {
				group.Go(func() { _ = d.updateIndex(nothing) })
				for len(d.committer.queue) == n {
					runtime.Gosched()
				}
			}
			return nil
		}))
		group.Wait()
		err = d.updateIndex(nothing)
		require.ErrorIs(t, err, ErrFailed)
		require.ErrorIs(t, err, ErrUnknown)
		require.NoError(t, d.Close())
	})
}

// TestTheCommitterStaysWhereItIsCrowded: where stepping back takes longer than a time slice it is left out for a while.
func TestTheCommitterStaysWhereItIsCrowded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook, took, backs := &testhook.Hook{}, maxStepBack, 0
		hook.OnHit(func(string) { backs++; <-time.After(took) })
		s, queue := stepBack{last: 2}, make(chan *commitRequest)
		s.letOthersCome(queue, hook)
		s.letOthersCome(queue, hook)
		require.Equal(t, 2, backs, "it did not take too long")
		took++
		for range 2 {
			backs = 0
			for range 1 + crowdedFor {
				s.letOthersCome(queue, hook)
			}
			require.Equal(t, 1, backs)
		}
	})
}
