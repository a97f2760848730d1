package pawl_test

import (
	"bytes"
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/commitlog"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/store/folderlog"
	"github.com/pawl-run/pawl/store/logtest"
	"github.com/pawl-run/pawl/workflow"
)

// A copyPlace is where a test keeps the copy of an engine directory.
type copyPlace struct {
	log   commitlog.Log
	bases *blob.Files
	path  string // of the log
	last  *atomic.Pointer[pawl.FollowReport]
}

func newCopyPlace(t *testing.T) copyPlace {
	dir := t.TempDir()
	log, err := folderlog.Open(filepath.Join(dir, "log"))
	require.NoError(t, err)
	bases, err := blob.OpenFiles(filepath.Join(dir, "bases"), blob.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = bases.Close() })
	return copyPlace{log, bases, filepath.Join(dir, "log"), &atomic.Pointer[pawl.FollowReport]{}}
}

// follow follows an engine until it is closed. It returns when there is a base.
func (p copyPlace) follow(t *testing.T, e *pawl.Engine) (ended chan error) {
	ended, based := make(chan error, 1), make(chan struct{}, 1)
	go func() {
		ended <- e.Follow(context.Background(), pawl.FollowOptions{
			Log: p.log, Bases: p.bases, Interval: time.Millisecond,
			Report: func(r pawl.FollowReport) {
				p.last.Store(&r)
				if !r.Base.IsZero() {
					select {
					case based <- struct{}{}:
					default:
					}
				}
			},
		})
	}()
	select {
	case <-based:
	case err := <-ended:
		t.Fatalf("it has ended: %v", err)
	}
	return ended
}

// awaitKept waits until the copy has all that was committed, so that hardly anything is left to Close, which does not wait for
// long. One more commit makes sure that there is an entry of a later moment.
func (p copyPlace) awaitKept(t *testing.T, e *pawl.Engine) {
	t.Helper()
	moment := time.Now().Truncate(time.Millisecond) // as the engine writes it
	publish(t, e, define(t, "name: last\nstart: a\nnodes: [{id: a}]\n"))
	require.Eventually(t, func() bool {
		r := p.last.Load()
		return r.Waiting == 0 && !r.At.Before(moment)
	}, 5*time.Minute, time.Millisecond)
}

// follow follows an engine into a folder until the returned function is called. It returns when there is a base.
func follow(t *testing.T, e *pawl.Engine, folder string) (end func()) {
	ctx, stop := context.WithCancel(context.Background())
	ended, based := make(chan error, 1), make(chan struct{}, 1)
	go func() {
		ended <- e.Follow(ctx, pawl.FollowOptions{Folder: folder, Interval: time.Millisecond, Report: func(r pawl.FollowReport) {
			if !r.Base.IsZero() {
				select {
				case based <- struct{}{}:
				default:
				}
			}
		}})
	}()
	select {
	case <-based:
	case err := <-ended:
		t.Fatalf("it has ended: %v", err)
	}
	return func() { stop(); require.ErrorIs(t, <-ended, context.Canceled) }
}

// replicatedRows has what a copy must have as the original has it: all but which files there
// are, and which records are in those.
var replicatedRows = []string{
	`SELECT key, value FROM meta WHERE key NOT IN ('epoch', 'log') ORDER BY 1`,
	`SELECT * FROM definitions ORDER BY 1`, `SELECT * FROM published ORDER BY 1, 2`, `SELECT * FROM purged_definitions ORDER BY 1`,
	`SELECT num, id, start_crc, room, room_crc, status, alarm, ended_at, output, failure, artifacts, state_crc, seq, sum, at, last_crc FROM runs ORDER BY 1`,
	`SELECT * FROM run_counts ORDER BY 1, 2`, `SELECT * FROM labels ORDER BY 1, 2, 3`, `SELECT * FROM approvals ORDER BY 1, 2`,
	`SELECT * FROM dead_letters ORDER BY 1, 2`, `SELECT * FROM outcomes ORDER BY 1`, `SELECT * FROM blob_refs ORDER BY 1, 2`,
}

func rowsOf(t *testing.T, dir string) map[string][][]driver.Value {
	c, err := sqlite.OpenReadOnly(filepath.Join(dir, "pawl.db"), ``)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	out := map[string][][]driver.Value{}
	for _, query := range replicatedRows {
		require.NoError(t, c.Each(query, func(r *sqlite.Row) error {
			out[query] = append(out[query], slices.Clone(r.Values()))
			return nil
		}))
	}
	return out
}

// A directory that is restored after a clean end has every row that the original has, and its runs go on.
func TestFollow(t *testing.T) {
	place, dir := newCopyPlace(t), filepath.Join(t.TempDir(), "data")
	options := pawl.Options{Executor: pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
		return map[string]any{"n": task.Branch.Index}, nil
	}}}
	e := open(t, dir, options)
	def := define(t, `
name: fan
start: a
nodes: [{id: a, task: work}, {id: b, task: work}, {id: c, task: work}, {id: ask, approval: {message: "'go on?'"}}]
transitions:
  - {from: a, to: b, foreach: {collection: input.items, as: part}, siblingGroup: g}
  - {from: b, to: c, synchronization: {siblingGroup: g, merge: {source: result, target: output.all, strategy: collect}}}
  - {from: c, to: ask, condition: input.ask}
`)
	start := func(id workflow.RunID, ask bool) {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: def, Labels: map[string]string{"of": "test"}}, map[string]any{"items": []any{int64(1), int64(2)}, "ask": ask}))
	}
	wait := func(id workflow.RunID) {
		_, err := e.Wait(t.Context(), id)
		require.NoError(t, err)
	}
	start("before", false)
	wait("before")
	ended := place.follow(t, e)
	start("ends", false)
	start("gone", false)
	wait("ends")
	wait("gone")
	require.NoError(t, e.Purge(t.Context(), "gone"))
	start("waits", true)
	require.NoError(t, e.Fork(t.Context(), "ends", "forked", pawl.ForkOptions{At: 2}))
	wait("forked")
	for ev, err := range e.Events(t.Context(), "waits", pawl.EventsOptions{Follow: true}) {
		if require.NoError(t, err); ev.Type == workflow.EventApprovalRequested {
			break
		}
	}
	place.awaitKept(t, e)
	require.NoError(t, e.Close(t.Context()))
	require.NoError(t, <-ended)

	into := filepath.Join(t.TempDir(), "restored")
	info, err := pawl.Restore(t.Context(), into, pawl.RestoreOptions{Log: place.log, Bases: place.bases})
	require.NoError(t, err)
	require.Empty(t, info.Damaged)
	require.Equal(t, 4, info.Runs)
	require.Positive(t, info.Changes)
	report, err := rescue.Verify(t.Context(), into, rescue.Options{})
	require.NoError(t, err)
	require.Empty(t, report.Findings)
	require.Equal(t, rowsOf(t, dir), rowsOf(t, into))

	e = open(t, into, options)
	require.NoError(t, e.Vote(t.Context(), pawl.Target{Run: "waits", Node: "ask"}, workflow.Ballot{By: "ann", Approved: true}))
	for _, id := range []workflow.RunID{"before", "ends", "waits", "forked"} {
		out, err := e.Wait(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, workflow.RunCompleted, out.Status)
		require.Len(t, out.Output["all"], 2)
	}
	require.NoError(t, e.Close(t.Context()))
}

// chainOf is a run of some steps; some of them have large results.
const chainOf = `
name: chain
start: a
nodes: [{id: a, task: work}, {id: b, task: work}, {id: c, task: work}]
transitions: [{from: a, to: b}, {from: b, to: c}, {from: c, to: a, condition: state.n < input.rounds, loop: {maxIterations: 50}}]
`

// The log may do anything meanwhile, and a follower may end and another one begin at any time: the restored
// directory is as the original was after some commit, and after a clean end as it was in the end.
func TestFollowThroughFaults(t *testing.T) {
	harness.InTurn(t, 4)
	var seeds []uint64
	for seed := range harness.Figure[uint64](3, 60, 600) {
		seeds = append(seeds, seed)
	}
	for _, seed := range harness.SampleOfDay(t, harness.Figure(1, 3, 1), seeds) { // each is tried on one of the days that have the test
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { followThroughFaults(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func followThroughFaults(t *testing.T, r *rand.Rand) {
	memory, faults := &logtest.Memory{}, rand.New(rand.NewPCG(r.Uint64(), 2))
	writer := func() commitlog.Log {
		return memory.Writer(func(string) logtest.Fault {
			if faults.IntN(3) > 0 {
				return logtest.None
			}
			return logtest.Fault(faults.IntN(int(logtest.Hangs)))
		})
	}
	bases, err := blob.OpenFiles(filepath.Join(t.TempDir(), "bases"), blob.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, bases.Close()) }()
	dir := filepath.Join(t.TempDir(), "data")
	large := strings.Repeat("x", 600<<10)
	options := pawl.Options{Executor: pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
		if task.Node == "b" && len(task.Key)%3 == 0 {
			return large, nil
		}
		return int64(1), nil
	}}}
	e, err := pawl.Open(t.Context(), dir, options)
	require.NoError(t, err)
	def := define(t, chainOf)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	follow := func() {
		o := pawl.FollowOptions{Log: writer(), Bases: bases, Interval: time.Duration(1+r.IntN(50)) * time.Millisecond, Rebase: time.Second}
		go func(ctx context.Context) { ended <- e.Follow(ctx, o) }(ctx)
	}
	follow()
	run := func(id string) {
		_, err := e.Run(t.Context(), workflow.Run{ID: workflow.RunID(id), Definition: def}, map[string]any{"rounds": int64(0)})
		require.NoError(t, err)
	}
	for i := range 3 + r.IntN(8) {
		run(fmt.Sprint("run-", i))
		<-time.After(time.Duration(r.IntN(800)) * time.Millisecond) // of the bubble
		switch r.IntN(4) {
		case 0:
			stop()
			require.ErrorIs(t, <-ended, context.Canceled)
			ctx, stop = context.WithCancel(context.Background())
			follow()
		case 1:
			require.NoError(t, e.Purge(t.Context(), workflow.RunID(fmt.Sprint("run-", i))))
		}
	}
	<-time.After(10 * time.Minute)
	run("last")
	require.NoError(t, e.Close(t.Context()))
	kept := memory.Len()
	require.NoError(t, <-ended)
	require.Equal(t, kept, memory.Len(), "Close waits for the last changes")
	stop()

	into := filepath.Join(t.TempDir(), "restored")
	info, err := pawl.Restore(t.Context(), into, pawl.RestoreOptions{Log: memory.Writer(nil), Bases: bases})
	require.NoError(t, err)
	require.Empty(t, info.Damaged)
	report, err := rescue.Verify(t.Context(), into, rescue.Options{})
	require.NoError(t, err)
	require.Empty(t, report.Findings)
	require.Equal(t, rowsOf(t, dir), rowsOf(t, into))
}

// A store that keeps nothing.
type fullStore struct{ blob.Store }

func (fullStore) Put(context.Context, io.Reader) (string, int64, error) {
	return "", 0, errors.New("no room")
}

// A life of the directory without a base adds nothing to what can be restored, and Follow says so.
func TestFollowWithoutBase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, dir := &logtest.Memory{}, filepath.Join(t.TempDir(), "data")
		bases, err := blob.OpenFiles(filepath.Join(t.TempDir(), "bases"), blob.Options{})
		require.NoError(t, err)
		defer func() { require.NoError(t, bases.Close()) }()
		def := define(t, "name: w\nstart: a\nnodes: [{id: a, task: work}]\n")
		_, err = pawl.Restore(t.Context(), filepath.Join(t.TempDir(), "none"), pawl.RestoreOptions{Log: memory.Writer(nil), Bases: bases})
		require.ErrorIs(t, err, pawl.ErrNoBase)
		var rows map[string][][]driver.Value
		for life, store := range []blob.Store{bases, fullStore{bases}} {
			e, err := pawl.Open(t.Context(), dir, pawl.Options{Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return nil, nil }}})
			require.NoError(t, err)
			ended, failed := make(chan error, 1), make(chan struct{}, 1)
			report := func(r pawl.FollowReport) {
				if r.Err != nil {
					select {
					case failed <- struct{}{}:
					default:
					}
				}
			}
			go func() {
				ended <- e.Follow(t.Context(), pawl.FollowOptions{Log: memory.Writer(nil), Bases: store, Report: report})
			}()
			synctest.Wait()
			require.ErrorIs(t, e.Follow(t.Context(), pawl.FollowOptions{Log: memory.Writer(nil), Bases: store}), pawl.ErrFollowed)
			for i := range 1 + life {
				_, err = e.Run(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("run-", life, "-", i)), Definition: def}, nil)
				require.NoError(t, err)
			}
			if life == 1 {
				<-failed
			}
			require.NoError(t, e.Close(t.Context()))
			if err := <-ended; life == 0 {
				require.NoError(t, err)
				rows = rowsOf(t, dir)
			} else {
				require.ErrorIs(t, err, pawl.ErrNoBase)
			}
		}
		into := filepath.Join(t.TempDir(), "restored")
		info, err := pawl.Restore(t.Context(), into, pawl.RestoreOptions{Log: memory.Writer(nil), Bases: bases})
		require.NoError(t, err)
		require.Equal(t, 1, info.Runs)
		require.Equal(t, rows, rowsOf(t, into))
	})
}

// A mendScene is an engine that is followed into a log in memory, in a bubble.
type mendScene struct {
	t      *testing.T
	engine *pawl.Engine
	memory *logtest.Memory
	bases  *blob.Files
	folder string // of the bases
	def    *workflow.Definition
	runs   int
}

func newMendScene(t *testing.T) *mendScene {
	folder := filepath.Join(t.TempDir(), "bases")
	bases, err := blob.OpenFiles(folder, blob.Options{})
	require.NoError(t, err)
	e, err := pawl.Open(t.Context(), filepath.Join(replays.Dir(t), "data"), pawl.Options{Executor: pawl.Handlers{
		"work": func(context.Context, pawl.Task) (any, error) { return nil, nil },
	}})
	require.NoError(t, err)
	return &mendScene{t: t, engine: e, memory: &logtest.Memory{}, bases: bases, folder: folder, def: define(t, "name: w\nstart: a\nnodes: [{id: a, task: work}]\n")}
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
	report, err := rescue.Verify(s.t.Context(), into, rescue.Options{})
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

// A part of a base that is cut short on its disk is put again with the next base.
func TestFollowMendsAPartThatIsCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMendScene(t)
		defer s.close()
		s.run(nil)
		<-time.After(time.Minute) // it has a file
		end := s.follow(s.bases, time.Hour)
		for info, err := range s.bases.All(t.Context()) {
			require.NoError(t, err)
			digits := strings.TrimPrefix(info.Hash, "sha256:")
			at := filepath.Join(s.folder, digits[:2], digits[2:])
			require.NoError(t, os.Chmod(at, 0o600))
			require.NoError(t, os.Truncate(at, 0))
		}
		s.run(nil)
		<-time.After(2 * time.Hour)
		runs, err := s.restore(time.Time{})
		require.NoError(t, err)
		require.Equal(t, 2, runs)
		require.ErrorIs(t, end(), context.Canceled)
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
	harness.RequireLevel(t, harness.Gate, "80 MB through one engine")
	harness.InTurn(t, 2)
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
		synctest.Wait() // the follower has looked in this second
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
func TestFollowRefusesTheDirectory(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir, pawl.Options{})
	for _, folder := range []string{dir, filepath.Join(dir, "copy"), filepath.Join(dir, "runs", "..", "a", "b")} {
		err := e.Follow(t.Context(), pawl.FollowOptions{Folder: folder})
		require.ErrorIs(t, err, pawl.ErrInvalid)
		require.ErrorContains(t, err, "is in the directory itself")
	}
	for _, none := range []string{"log", "bases", "copy", "a"} {
		require.NoFileExists(t, filepath.Join(dir, none))
		require.NoDirExists(t, filepath.Join(dir, none))
	}
}

// A copy takes no other directory than its own, or one that was restored from it: a wrong path would hide what it has, and drop it some day.
// A follower that is refused leaves alone what another one is about to put.
func TestFollowRefusesAnotherDirectory(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // it would go on
	defer cancel()
	folder, at := filepath.Join(t.TempDir(), "copy"), t.TempDir()
	options := pawl.Options{Executor: pawl.Handlers{"work": double}}
	engine := func(name string, run workflow.RunID) *pawl.Engine {
		e := open(t, filepath.Join(at, name), options)
		_, err := e.Run(t.Context(), workflow.Run{ID: run, Definition: define(t, oneTask)}, map[string]any{"n": 1})
		require.NoError(t, err)
		return e
	}
	restored := func(name string, o pawl.RestoreOptions) []workflow.RunID {
		into := filepath.Join(at, name)
		_, err := pawl.Restore(t.Context(), into, o)
		require.NoError(t, err)
		e := open(t, into, options)
		defer func() { require.NoError(t, e.Close(context.Background())) }()
		return idsOf(t, e)
	}
	a, b := engine("a", "of-a"), engine("b", "of-b")
	follow(t, a, folder)()
	log, err := folderlog.Open(filepath.Join(folder, "log"))
	require.NoError(t, err)
	bases, err := blob.OpenFiles(filepath.Join(folder, "bases"), blob.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, bases.Close()) }()
	underWay := filepath.Join(folder, "bases", "tmp", "put-"+strings.Repeat("0a", 16))
	require.NoError(t, os.WriteFile(underWay, nil, 0o600)) // by a follower that has the log
	was := allNames(t, folder)
	for _, o := range []pawl.FollowOptions{{Folder: folder}, {Log: log, Bases: bases}} {
		err := b.Follow(ctx, o)
		require.ErrorIs(t, err, pawl.ErrOtherLog)
		require.ErrorContains(t, err, "give each directory a copy of its own")
		require.Equal(t, was, allNames(t, folder))
	}
	require.Equal(t, []workflow.RunID{"of-a"}, restored("back", pawl.RestoreOptions{Folder: folder}))
	back := engine("back", "later")
	end := follow(t, back, folder)
	require.ErrorIs(t, back.Follow(ctx, pawl.FollowOptions{Folder: folder}), pawl.ErrFollowed)
	require.FileExists(t, underWay)
	end()
	require.Equal(t, []workflow.RunID{"of-a", "later"}, restored("again", pawl.RestoreOptions{Folder: folder}))
	require.ErrorIs(t, b.Follow(ctx, pawl.FollowOptions{Folder: folder}), pawl.ErrOtherLog)

	require.NoError(t, os.RemoveAll(filepath.Join(folder, "bases"))) // what is damaged is mended by whoever follows
	follow(t, a, folder)()
	require.Equal(t, []workflow.RunID{"of-a"}, restored("mended", pawl.RestoreOptions{Folder: folder}))
	require.ErrorIs(t, b.Follow(ctx, pawl.FollowOptions{Folder: folder}), pawl.ErrOtherLog)
}

// Two logs with one store of bases, by a mistake, lose nothing: who finds a base of another directory there deletes nothing.
func TestFollowIntoAStoreOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := newMendPlace(t), newMendPlace(t)
		y.bases = x.bases
		var engines []*pawl.Engine
		var logged bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&logged, nil))
		ended := make(chan error, 2)
		for _, p := range []*mendPlace{x, y} {
			e := open(t, p.pathOf("d"), pawl.Options{Executor: p.h, Logger: logger})
			engines = append(engines, e)
			go func() {
				ended <- e.Follow(t.Context(), pawl.FollowOptions{Log: p.log.Writer(nil), Bases: p.bases, Rebase: 6 * time.Hour, Keep: 24 * time.Hour})
			}()
		}
		x.run(engines[0], "x-1", "x-2")
		for i := range 14 {
			y.run(engines[1], workflow.RunID(fmt.Sprint("y-", i)))
			<-time.After(7 * time.Hour)
		}
		for _, e := range engines {
			require.NoError(t, e.Close(t.Context()))
			require.NoError(t, <-ended)
		}
		for want, p := range map[int]*mendPlace{2: x, 14: y} {
			info, err := pawl.Restore(t.Context(), filepath.Join(t.TempDir(), "restored"), pawl.RestoreOptions{Log: p.log.Writer(nil), Bases: p.bases})
			require.NoError(t, err)
			require.Equal(t, want, info.Runs)
			require.Empty(t, info.Damaged)
		}
		require.Contains(t, logged.String(), "give each log an empty store of its own")
	})
}

// A copy does not come into an engine directory, such as a backup: nobody could restore that any more.
func TestFollowRefusesABackup(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // it would go on
	defer cancel()
	at := t.TempDir()
	backup, other := filepath.Join(at, "backup"), filepath.Join(at, "other")
	options := pawl.Options{Executor: pawl.Handlers{"work": double}}
	e := open(t, filepath.Join(at, "data"), options)
	_, err := e.Backup(t.Context(), backup)
	require.NoError(t, err)
	require.NoError(t, open(t, other, options).Close(t.Context()))
	torn := filepath.Join(at, "torn")
	require.NoError(t, os.MkdirAll(filepath.Join(torn, "runs"), 0o700))
	for _, folder := range []string{backup, other, torn} {
		was := allNames(t, folder)
		err := e.Follow(ctx, pawl.FollowOptions{Folder: folder})
		require.ErrorIs(t, err, pawl.ErrInvalid)
		require.ErrorContains(t, err, "give the copy a folder of its own")
		require.Equal(t, was, allNames(t, folder))
	}
}

// journalOf returns the journal of a run as text, a line for each record.
func journalOf(t *testing.T, e *pawl.Engine, id workflow.RunID) (out []string) {
	for r, err := range e.Journal(t.Context(), id, pawl.EventsOptions{}) {
		require.NoError(t, err)
		data, err := json.Marshal(r)
		require.NoError(t, err)
		out = append(out, string(data))
	}
	return out
}

func idsOf(t *testing.T, e *pawl.Engine) (out []workflow.RunID) {
	for r, err := range e.Runs(t.Context(), pawl.RunFilter{}) {
		require.NoError(t, err)
		out = append(out, r.Run)
	}
	return out
}

// One can go back to any moment of the time that is kept, and to none before; entries
// and bases that only served to go back further are gone.
func TestRestoreAsOf(t *testing.T) {
	harness.InTurn(t, 4)
	synctest.Test(t, func(t *testing.T) {
		memory := &logtest.Memory{}
		bases, err := blob.OpenFiles(filepath.Join(t.TempDir(), "bases"), blob.Options{})
		require.NoError(t, err)
		defer func() { require.NoError(t, bases.Close()) }()
		e, err := pawl.Open(t.Context(), filepath.Join(replays.Dir(t), "data"), pawl.Options{Executor: pawl.Handlers{
			"work": func(context.Context, pawl.Task) (any, error) { return int64(1), nil },
		}})
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() {
			ended <- e.Follow(t.Context(), pawl.FollowOptions{Log: memory.Writer(nil), Bases: bases, Rebase: time.Hour, Keep: 12 * time.Hour})
		}()
		<-time.After(time.Minute)
		def := define(t, "name: w\nstart: a\nnodes: [{id: a, task: work}, {id: b, wait: {for: 90m}}]\ntransitions: [{from: a, to: b}]\n")
		moments := map[int]time.Time{}
		for i := range 60 { // hours
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprintf("run-%02d", i)), Definition: def}, nil))
			<-time.After(10 * time.Minute)
			moments[i] = time.Now()
			<-time.After(50 * time.Minute)
		}
		restore := func(at time.Time) (*pawl.Engine, error) {
			into := filepath.Join(t.TempDir(), "restored")
			info, err := pawl.Restore(t.Context(), into, pawl.RestoreOptions{Log: memory.Writer(nil), Bases: bases, At: at})
			if err != nil {
				return nil, err
			}
			require.Empty(t, info.Damaged)
			report, err := rescue.Verify(t.Context(), into, rescue.Options{})
			require.NoError(t, err)
			require.Empty(t, report.Findings)
			return pawl.Open(t.Context(), into, pawl.Options{Maintenance: true})
		}
		for i := 50; i < 60; i += harness.Figure(5, 2, 1) {
			was, err := restore(moments[i])
			require.NoError(t, err)
			ids := idsOf(t, was)
			require.Len(t, ids, i+1)
			for _, id := range ids {
				then, now := journalOf(t, was, id), journalOf(t, e, id)
				require.LessOrEqual(t, len(then), len(now))
				require.Equal(t, now[:len(then)], then)
			}
			out, err := was.Inspect(t.Context(), workflow.RunID(fmt.Sprintf("run-%02d", i-1)))
			require.NoError(t, err)
			require.Equal(t, workflow.RunRunning, out.Status) // for twenty minutes more
			require.NoError(t, was.Close(t.Context()))
		}
		_, err = restore(moments[30])
		require.ErrorIs(t, err, pawl.ErrNoBase)
		require.Less(t, memory.Len(), 150)
		count := 0
		for _, err := range bases.All(t.Context()) {
			require.NoError(t, err)
			count++
		}
		require.Less(t, count, 800, "files of runs, and bases of the last day and a half")
		require.NoError(t, e.Close(t.Context()))
		require.NoError(t, <-ended)
	})
}

// A copy of a sealed directory is sealed, and its blobs are there.
func TestFollowSealed(t *testing.T) {
	const secret = "the-secret-of-the-run"
	codec := testCodec(t, "k1")
	place := newCopyPlace(t)
	require.NoError(t, place.bases.Close())
	sealedAt := t.TempDir()
	var err error
	place.bases, err = blob.OpenFiles(sealedAt, blob.Options{Codec: codec})
	require.NoError(t, err)
	defer func() { require.NoError(t, place.bases.Close()) }()
	options := pawl.Options{Codec: codec, Executor: pawl.Handlers{"put": func(ctx context.Context, task pawl.Task) (any, error) {
		ref, err := task.Put(ctx, bytes.NewReader([]byte(secret)), "text/plain")
		return map[string]any{"file": ref, "text": secret}, err
	}}}
	e := open(t, filepath.Join(t.TempDir(), "data"), options)
	ended := place.follow(t, e)
	def := define(t, "name: w\nstart: a\nnodes: [{id: a, task: put, output: {output.got: result}}]\n")
	was, err := e.Run(t.Context(), workflow.Run{ID: "w", Definition: def}, map[string]any{"text": secret})
	require.NoError(t, err)
	place.awaitKept(t, e)
	require.NoError(t, e.Close(t.Context()))
	require.NoError(t, <-ended)

	into := filepath.Join(t.TempDir(), "restored")
	info, err := pawl.Restore(t.Context(), into, pawl.RestoreOptions{Log: place.log, Bases: place.bases, Codec: codec})
	require.NoError(t, err)
	require.Empty(t, info.Damaged)
	require.Equal(t, 1, info.Blobs)
	for _, folder := range []string{into, sealedAt, place.path} {
		require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			require.NotContains(t, string(data), secret, path)
			return err
		}))
	}
	e = open(t, into, options)
	out, err := e.Wait(t.Context(), "w")
	require.NoError(t, err)
	require.Equal(t, was.Output, out.Output)
	got, _ := out.Output["got"].(map[string]any)
	ref, err := blob.ParseRef(got["file"])
	require.NoError(t, err)
	r, err := e.OpenBlob(t.Context(), ref)
	require.NoError(t, err)
	require.NoError(t, r.Close())
}

// A hangingStore takes nothing until its caller gives up.
type hangingStore struct {
	*blob.Files
	hangs chan struct{} // gets one from each Put
}

func (s hangingStore) Put(ctx context.Context, _ io.Reader) (string, int64, error) {
	select {
	case s.hangs <- struct{}{}:
	default:
	}
	<-ctx.Done()
	return "", 0, context.Cause(ctx)
}

// A place for bases that does not answer holds up neither runs whose files are kept for a base nor Close.
func TestABaseThatHangsHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files, err := blob.OpenFiles(t.TempDir(), blob.Options{})
		require.NoError(t, err)
		defer func() { require.NoError(t, files.Close()) }()
		dir := t.TempDir()
		o := pawl.Options{Executor: pawl.Handlers{}, IdleAfter: time.Second}
		e, err := pawl.Open(t.Context(), dir, o)
		require.NoError(t, err)
		publish(t, e, define(t, "name: w\nstart: a\nnodes: [{id: a, approval: {message: \"'go on?'\"}}]\n"))
		for _, id := range []workflow.RunID{"r", "ended"} {
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Workflow: "w"}, nil))
		}
		<-time.After(time.Minute) // it is filed
		var memory logtest.Memory
		bases, ended := hangingStore{files, make(chan struct{}, 1)}, make(chan error, 1)
		go func() {
			ended <- e.Follow(context.Background(), pawl.FollowOptions{Log: memory.Writer(nil), Bases: bases})
		}()
		<-bases.hangs
		for range 3 { // each time it is filed
			require.NoError(t, e.Pause(t.Context(), "r"))
			<-time.After(time.Minute)
			require.NoError(t, e.Resume(t.Context(), "r"))
			<-time.After(time.Minute)
		}
		require.NoError(t, e.Pause(t.Context(), "ended"))
		<-time.After(time.Minute)
		require.NoError(t, e.Cancel(t.Context(), "ended", "enough"))
		<-time.After(time.Minute)
		stats, err := e.Stats(t.Context())
		require.NoError(t, err)
		require.Zero(t, stats.Active, "they have left")
		require.NoError(t, e.Purge(t.Context(), "ended"))
		require.NoError(t, e.Pause(t.Context(), "r"))
		begun := time.Now()
		require.NoError(t, e.Close(t.Context()))
		require.LessOrEqual(t, time.Since(begun), 10*time.Second)
		require.ErrorIs(t, <-ended, pawl.ErrNoBase)
		e, err = pawl.Open(t.Context(), dir, o)
		require.NoError(t, err)
		run, err := e.Summary(t.Context(), "r")
		require.NoError(t, err)
		require.Equal(t, workflow.RunPaused, run.Status)
		require.NoError(t, e.Close(t.Context()))
	})
}
