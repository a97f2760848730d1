package pawl_test

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/store/logtest"
	"github.com/pawl-run/pawl/workflow"
)

// A mendScene is an engine that is followed into a log in memory, in a bubble.
type mendScene struct {
	t      *testing.T
	engine *pawl.Engine
	memory *logtest.Memory
	bases  *blob.Files
	def    *workflow.Definition
	runs   int
}

func newMendScene(t *testing.T) *mendScene {
	bases, err := blob.OpenFiles(filepath.Join(t.TempDir(), "bases"))
	require.NoError(t, err)
	e, err := pawl.Open(t.Context(), filepath.Join(replays.Dir(t), "data"), pawl.Options{Executor: pawl.Handlers{
		"work": func(context.Context, pawl.Task) (any, error) { return nil, nil },
	}})
	require.NoError(t, err)
	return &mendScene{t: t, engine: e, memory: &logtest.Memory{}, bases: bases, def: define(t, "name: w\nstart: a\nnodes: [{id: a, task: work}]\n")}
}

// run has a run come to its end.
func (s *mendScene) run(input any) {
	s.runs++
	_, err := s.engine.Run(s.t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("run-", s.runs)), Definition: s.def}, input)
	require.NoError(s.t, err)
}

// follow follows until the returned function is called, which returns what Follow did.
func (s *mendScene) follow(bases blob.Store, rebase time.Duration) (end func() error) {
	ctx, stop := context.WithCancel(s.t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- s.engine.Follow(ctx, pawl.FollowOptions{Log: s.memory.Writer(nil), Bases: bases, Rebase: rebase})
	}()
	<-time.After(time.Minute)
	return func() error { stop(); return <-ended }
}

// restore returns how many runs are in what is restored.
func (s *mendScene) restore(at time.Time) (int, error) {
	into := filepath.Join(s.t.TempDir(), "restored")
	info, err := pawl.Restore(s.t.Context(), into, pawl.RestoreOptions{Log: s.memory.Writer(nil), Bases: s.bases, At: at})
	if err != nil {
		return 0, err
	}
	require.Empty(s.t, info.Damaged)
	report, err := rescue.Verify(into)
	require.NoError(s.t, err)
	require.Empty(s.t, report.Findings)
	return info.Runs, nil
}

// close closes the engine and the bases.
func (s *mendScene) close() {
	require.NoError(s.t, s.engine.Close(s.t.Context()))
	require.NoError(s.t, s.bases.Close())
}

// A commit between two followers of one life is in neither of their changes: until the second
// one has a base, one can go back to the end of the first.
func TestFollowAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMendScene(t)
		defer s.close()
		end := s.follow(s.bases, 0)
		s.run(nil)
		<-time.After(time.Minute)
		require.ErrorIs(t, end(), context.Canceled)
		s.run(nil)
		end = s.follow(fullStore{s.bases}, 0)
		s.run(nil)
		<-time.After(time.Minute)
		require.ErrorIs(t, end(), context.Canceled)
		runs, err := s.restore(time.Time{})
		require.NoError(t, err)
		require.Equal(t, 1, runs)
	})
}

// A heldStore takes nothing while it is held.
type heldStore struct {
	blob.Store
	held *atomic.Bool
}

func (s heldStore) Put(ctx context.Context, r io.Reader) (string, int64, error) {
	if s.held.Load() {
		return "", 0, logtest.ErrFault
	}
	return s.Store.Put(ctx, r)
}

// Where changes were dropped because too many waited, and the directory is closed before a base
// takes their place, Follow says that they are not kept.
func TestFollowLosesChanges(t *testing.T) {
	if harness.Raced {
		t.Skip("80 MB through one engine, by one caller")
	}
	synctest.Test(t, func(t *testing.T) {
		s := newMendScene(t)
		defer s.close()
		var logHeld, basesHeld atomic.Bool
		ended := make(chan error, 1)
		log := s.memory.Writer(func(string) logtest.Fault {
			if logHeld.Load() {
				return logtest.Refused
			}
			return logtest.None
		})
		go func() {
			ended <- s.engine.Follow(t.Context(), pawl.FollowOptions{Log: log, Bases: heldStore{s.bases, &basesHeld}})
		}()
		<-time.After(time.Minute)
		logHeld.Store(true)
		basesHeld.Store(true)
		text := harness.RandomLetters(1_000_000)
		for range 80 { // more than wait
			s.run(map[string]any{"text": text})
		}
		logHeld.Store(false)
		<-time.After(time.Minute)
		s.run(nil)
		<-time.After(time.Minute)
		require.NoError(t, s.engine.Close(t.Context()))
		require.ErrorIs(t, <-ended, pawl.ErrNoBase)
		runs, err := s.restore(time.Time{})
		require.NoError(t, err)
		require.Zero(t, runs)
	})
}

// A damaged entry from before the last base but one keeps nobody from what came later, nor from
// what came before; where it may be needed, it is told.
func TestRestorePastDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMendScene(t)
		defer s.close()
		end := s.follow(s.bases, time.Hour)
		var moments []time.Time
		var last []uint64 // entries at those
		for range 5 {
			s.run(nil)
			<-time.After(30 * time.Minute)
			s.run(nil)
			<-time.After(10 * time.Minute)
			moments, last = append(moments, time.Now()), append(last, uint64(s.memory.Len())) //nolint:gosec // small
			<-time.After(50 * time.Minute)
		}
		flip := func(data []byte) []byte { data[len(data)/2] ^= 4; return data }
		s.memory.Change(last[1], flip)
		for i, want := range map[int]int{0: 2, 3: 8, 4: 10} {
			runs, err := s.restore(moments[i])
			require.NoError(t, err, i)
			require.Equal(t, want, runs)
		}
		_, err := s.restore(moments[1])
		require.ErrorIs(t, err, pawl.ErrCorrupt)
		require.ErrorContains(t, err, fmt.Sprintf("entry %d of the log", last[1]))
		s.memory.Change(last[4], flip)
		_, err = s.restore(time.Time{})
		require.ErrorIs(t, err, pawl.ErrCorrupt, "the last moment is not silently an earlier one")
		require.ErrorIs(t, end(), context.Canceled)
	})
}

// A copy inside of the directory would be lost with it.
func TestFollowFolderRefusesTheDirectory(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir, pawl.Options{})
	for _, folder := range []string{dir, filepath.Join(dir, "copy"), filepath.Join(dir, "runs", "..", "a", "b")} {
		err := e.FollowFolder(t.Context(), folder, pawl.FollowOptions{})
		require.ErrorIs(t, err, pawl.ErrInvalid)
		require.ErrorContains(t, err, "is in the directory itself")
	}
	for _, none := range []string{"log", "bases", "copy", "a"} {
		require.NoFileExists(t, filepath.Join(dir, none))
		require.NoDirExists(t, filepath.Join(dir, none))
	}
}
