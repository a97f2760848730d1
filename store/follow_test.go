package store_test

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/store/logtest"
	"github.com/pawl-run/pawl/workflow"
)

// A faultyStore takes nothing while it has a fault: it fails or hangs until it is healed.
type faultyStore struct {
	blob.Store
	fault  atomic.Int64 // a logtest.Fault
	healed chan struct{}
}

func (s *faultyStore) Put(ctx context.Context, r io.Reader) (string, int64, error) {
	switch logtest.Fault(s.fault.Load()) {
	case logtest.Refused:
		return "", 0, logtest.ErrFault
	case logtest.Hangs:
		select {
		case <-ctx.Done():
			return "", 0, context.Cause(ctx)
		case <-s.healed:
		}
	}
	return s.Store.Put(ctx, r)
}

// A followScene is a directory that is followed into a log in memory, in a bubble.
type followScene struct {
	t      *testing.T
	path   string
	dir    *store.Dir
	memory logtest.Memory
	bases  faultyStore
	room   atomic.Int64 // how many entries the log takes yet, if that is not negative
	last   atomic.Pointer[store.FollowReport]
	end    func()
}

func newFollowScene(t *testing.T) *followScene {
	s := &followScene{t: t, path: t.TempDir()}
	files, err := blob.OpenFiles(t.TempDir(), blob.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, files.Close()) })
	s.bases.Store, s.bases.healed = files, make(chan struct{})
	s.room.Store(-1)
	s.dir = store.OpenDir(t, s.path)
	s.follow()
	return s
}

func (s *followScene) follow() {
	ctx, stop := context.WithCancel(s.t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- s.dir.Follow(ctx, store.FollowOptions{
			Log: s.memory.Writer(s.refuse), Bases: &s.bases, Report: func(r store.FollowReport) { s.last.Store(&r) },
		})
	}()
	s.end = func() { stop(); require.ErrorIs(s.t, <-ended, context.Canceled) }
}

// refuse has the log refuse entries for which it has no room.
func (s *followScene) refuse(string) logtest.Fault {
	if n := s.room.Load(); n == 0 || n > 0 && s.room.Add(-1) < 0 {
		return logtest.Refused
	}
	return logtest.None
}

// commit has runs begin, and returns when that was acknowledged, a minute later.
func (s *followScene) commit(input map[string]any, ids ...workflow.RunID) time.Time {
	for _, id := range ids {
		store.StartOwner(s.t, s.dir, id).Do(state.Start{}, store.StartRun(input), store.CreateToken(1, "start"), store.Dispatch(1))
	}
	acknowledged := time.Now()
	<-time.After(time.Minute)
	synctest.Wait() // the follower has looked in this second
	return acknowledged
}

// restore returns how many runs are in what is restored.
func (s *followScene) restore(at time.Time) int {
	info, err := store.Restore(s.t.Context(), filepath.Join(s.t.TempDir(), "restored"), store.RestoreOptions{Log: s.memory.Writer(nil), Bases: s.bases.Store, At: at})
	require.NoError(s.t, err)
	return info.Runs
}

// A follower reports that the copy has what can be restored: neither what it did before its first base nor what came behind lost changes
// before another one, although the log has it. As long as no base succeeds, its failure is reported, and the copy is behind.
func TestFollowReportsWhatCanBeRestored(t *testing.T) {
	for how, begin := range map[string]func(*followScene){
		"again": func(s *followScene) { s.end(); s.follow() },
		"restart": func(s *followScene) {
			s.end()
			require.NoError(s.t, s.dir.Close())
			s.dir = store.OpenDir(s.t, s.path)
			s.follow()
		},
		"lost": func(s *followScene) { s.dir.LoseTapes() },
	} {
		for _, fault := range []logtest.Fault{logtest.Refused, logtest.Hangs} {
			t.Run(fmt.Sprintf("%s, fault %d", how, fault), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newFollowScene(t)
					first := s.commit(nil, "r1")
					was := s.last.Load().At
					require.False(t, was.Before(first))
					require.Equal(t, 1, s.restore(was))
					s.bases.fault.Store(int64(fault))
					begin(s)
					second := s.commit(nil, "r2")
					r := s.last.Load()
					require.Zero(t, r.Waiting)
					require.False(t, r.At.After(was), "nothing more can be restored")
					require.Equal(t, 1, s.restore(time.Time{}))
					if fault == logtest.Refused {
						require.ErrorIs(t, r.Err, logtest.ErrFault)
					}
					behind, ok := s.dir.CopyBehind()
					require.True(t, ok)
					require.True(t, !behind.IsZero() && !behind.After(second), behind)
					s.bases.fault.Store(int64(logtest.None))
					close(s.bases.healed)
					<-time.After(time.Minute)
					r = s.last.Load()
					require.NoError(t, r.Err)
					require.False(t, r.At.Before(second))
					require.Equal(t, 2, s.restore(r.At))
					behind, _ = s.dir.CopyBehind()
					require.Zero(t, behind)
					s.end()
				})
			})
		}
	}
}

// An entry that has only a part of what waited brings the copy to no moment.
func TestFollowReportsNoPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFollowScene(t)
		began := s.commit(nil, "r1")
		s.room.Store(1)
		large := map[string]any{"text": strings.Repeat("x", 500<<10)}
		committed := s.commit(large, "r2", "r3")
		require.True(t, committed.After(began))
		require.Zero(t, s.room.Load())
		require.Equal(t, 2, s.restore(time.Time{}))
		require.True(t, s.last.Load().At.Before(committed))
		s.room.Store(-1)
		<-time.After(time.Minute)
		r := s.last.Load()
		require.False(t, r.At.Before(committed))
		require.Equal(t, 3, s.restore(r.At))
		s.end()
	})
}
