package pawl_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/store/folderlog"
	"github.com/pawl-run/pawl/store/logtest"
	"github.com/pawl-run/pawl/workflow"
)

// A copyPlace is where a test keeps the copy of an engine directory.
type copyPlace struct {
	log   pawl.Log
	bases *blob.Files
	path  string // of the log
}

func newCopyPlace(t *testing.T) copyPlace {
	dir := t.TempDir()
	log, err := folderlog.Open(filepath.Join(dir, "log"))
	require.NoError(t, err)
	bases, err := blob.OpenFiles(filepath.Join(dir, "bases"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = bases.Close() })
	return copyPlace{log, bases, filepath.Join(dir, "log")}
}

// follow follows an engine until it is closed. It returns when there is a base.
func (p copyPlace) follow(t *testing.T, e *pawl.Engine) (ended chan error) {
	ended, based := make(chan error, 1), make(chan struct{}, 1)
	go func() {
		ended <- e.Follow(context.Background(), pawl.FollowOptions{
			Log: p.log, Bases: p.bases, Interval: time.Millisecond,
			Report: func(r pawl.FollowReport) {
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
	require.NoError(t, e.Close(t.Context()))
	require.NoError(t, <-ended)

	into := filepath.Join(t.TempDir(), "restored")
	info, err := pawl.Restore(t.Context(), into, pawl.RestoreOptions{Log: place.log, Bases: place.bases})
	require.NoError(t, err)
	require.Empty(t, info.Damaged)
	require.Equal(t, 4, info.Runs)
	require.Positive(t, info.Changes)
	report, err := rescue.Verify(into)
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
	for seed := range harness.Figure[uint64](3, 40, 600) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { followThroughFaults(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func followThroughFaults(t *testing.T, r *rand.Rand) {
	memory, faults := &logtest.Memory{}, rand.New(rand.NewPCG(r.Uint64(), 2))
	writer := func() pawl.Log {
		return memory.Writer(func(string) logtest.Fault {
			if faults.IntN(3) > 0 {
				return logtest.None
			}
			return logtest.Fault(faults.IntN(int(logtest.Hangs)))
		})
	}
	bases, err := blob.OpenFiles(filepath.Join(t.TempDir(), "bases"))
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
	report, err := rescue.Verify(into)
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
		bases, err := blob.OpenFiles(filepath.Join(t.TempDir(), "bases"))
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
