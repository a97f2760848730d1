package ownertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/witness"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/store/logtest"
	"github.com/pawl-run/pawl/workflow"
)

var kindOf = witness.MustParse(`name: kinds
start: a
nodes: [{id: a, task: quick}, {id: b, task: quick}, {id: c, task: waits}, {id: d, task: pending}, {id: e, task: deaf}]
transitions:
  - {from: a, to: b, condition: input.kind == 0}
  - {from: a, to: c, condition: input.kind == 1}
  - {from: a, to: d, condition: input.kind == 2}
  - {from: a, to: e, condition: input.kind == 3}`)

// A closing is an engine that is closed under load.
type closing struct {
	t      *testing.T
	r      *rand.Rand
	dir    string
	runs   int
	deaf   bool          // some tasks ignore their context
	free   chan struct{} // ends those
	held   atomic.Int64  // tasks that do not end before the engine closes
	full   chan struct{} // closed when all slots are held
	engine *pawl.Engine

	mu    sync.Mutex
	acked map[workflow.RunID]bool // started; true: ended
}

func (c *closing) execute(ctx context.Context, t pawl.Task) (any, error) {
	switch t.Type {
	case "waits":
		c.hold()
		<-ctx.Done()
		return nil, ctx.Err()
	case "pending":
		return nil, pawl.ErrPending
	case "deaf":
		c.hold()
		<-c.free
		return "late", nil
	}
	return "quick", nil
}

// slots is how many tasks run at a time.
const slots = 64

func (c *closing) hold() {
	if c.held.Add(1) == slots {
		close(c.full)
	}
}

// load starts runs until the engine is closed, and waits for some.
func (c *closing) load(k int) {
	for i := range c.runs {
		id, kind := workflow.RunID(fmt.Sprint(k, "-", i)), i%3
		if c.deaf && i%16 == 15 {
			kind = 3
		}
		err := c.engine.Start(context.Background(), workflow.Run{ID: id, Definition: kindOf}, map[string]any{"kind": kind})
		if errors.Is(err, pawl.ErrClosed) {
			return
		}
		if !assert.NoError(c.t, err) {
			return
		}
		c.mu.Lock()
		c.acked[id] = false
		c.mu.Unlock()
		if kind != 0 || i%2 == 1 {
			continue
		}
		out, err := c.engine.Wait(context.Background(), id)
		if errors.Is(err, pawl.ErrClosed) {
			return
		}
		if assert.NoError(c.t, err) && assert.NoError(c.t, out.Err()) {
			c.mu.Lock()
			c.acked[id] = true
			c.mu.Unlock()
		}
	}
}

// close closes the engine, from several goroutines at a time or again, and returns
// how long that took.
func (c *closing) close() time.Duration {
	begin := time.Now()
	closers := 1 + c.r.IntN(3)
	took := time.Duration(0)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if c.deaf {
		ctx, cancel = context.WithTimeout(context.Background(), time.Duration(c.r.IntN(30))*time.Millisecond)
		defer cancel()
	}
	errs := make([]error, closers)
	race(closers, func(k int) {
		errs[k] = c.engine.Close(ctx)
		if k == 0 {
			took = time.Since(begin)
		}
	})
	for _, err := range append(errs, c.engine.Close(context.Background())) {
		var left *pawl.LeftBehindError
		if errors.As(err, &left) {
			require.True(c.t, c.deaf, "%v", err)
			require.NotEmpty(c.t, left.Tasks)
		} else if !errors.Is(err, context.DeadlineExceeded) { // of those who only wait for the first
			require.NoError(c.t, err)
		}
	}
	return took
}

// TestCloseUnderLoad closes engines in the middle of starts, commits and tasks,
// when some tasks ignore their context: in bounded time, with no goroutine left
// but those of such tasks, and without the loss of anything that was
// acknowledged.
func TestCloseUnderLoad(t *testing.T) {
	rounds := harness.Figure(2, 20, 200)
	acks, ends, slowest := 0, 0, time.Duration(0)
	for i := range rounds {
		r := rand.New(rand.NewPCG(*seed, 3400+uint64(i)))
		c := &closing{t: t, r: r, runs: 16 + r.IntN(harness.Figure(40, 120, 120)), deaf: i%2 == 1, free: make(chan struct{}), full: make(chan struct{}), acked: map[workflow.RunID]bool{}}
		c.dir = filepath.Join(harness.Workspace(t), "engine")
		before := goleak.IgnoreCurrent()
		var err error
		var commits atomic.Int64
		busy, after := make(chan struct{}), int64(1+r.IntN(300))
		hook := &testhook.Hook{}
		reset := hook.OnHit(func(name string) {
			if name == "commit.inside" && commits.Add(1) == after {
				close(busy)
			}
		})
		c.engine, err = pawl.Open(testhook.With(t.Context(), hook), c.dir, pawl.Options{Executor: pawl.Handlers{"*": c.execute}, Concurrency: slots, IdleAfter: time.Duration(r.IntN(20)) * time.Millisecond, Grace: time.Duration(r.IntN(3)) * time.Millisecond})
		require.NoError(t, err)
		var group sync.WaitGroup
		idle := make(chan struct{})
		for k := range 3 {
			group.Go(func() { c.load(k) })
		}
		go func() { group.Wait(); close(idle) }()
		select {
		case <-busy: // in the middle of a commit
		case <-c.full: // so that nothing else can end
		case <-idle:
		}
		took := c.close()
		<-idle
		reset()
		slowest = max(slowest, took)
		close(c.free)
		require.NoError(t, harness.FindLeaks(before), "round %d", i)
		acks += len(c.acked)
		ends += c.settle()
		require.Less(t, slowest, patience/2)
	}
	require.Positive(t, ends)
	t.Logf("%d engines closed under load, the slowest in %v: %d starts and %d ends acknowledged, 0 lost; 0 goroutines left; violations: 0", rounds, slowest, acks, ends)
}

// settle opens the directory again and lets every run end that was acknowledged.
func (c *closing) settle() (ends int) {
	e, err := pawl.Open(c.t.Context(), c.dir, pawl.Options{Executor: pawl.Handlers{"*": echo}})
	require.NoError(c.t, err)
	for id, ended := range c.acked {
		if ended {
			snap, err := e.Inspect(c.t.Context(), id)
			require.NoError(c.t, err, string(id))
			require.Equal(c.t, workflow.RunCompleted, snap.Status, string(id))
			ends++
		}
		out, err := e.Wait(c.t.Context(), id)
		require.NoError(c.t, err, string(id))
		require.NoError(c.t, out.Err(), string(id))
	}
	require.NoError(c.t, e.Close(c.t.Context()))
	return ends
}

// A context that is done while its call is being committed, at every place of a
// commit: the caller gets the cause of that or the answer, never another error, and
// asking again says that it was taken, once.
func TestContextDoneInTheMiddleOfACommit(t *testing.T) {
	points := []string{"start.ask", "commit.begin", "commit.row", "commit.inside", "commit.done", "release.begin", "release.end"}
	gone := errors.New("the caller went away")
	rounds, cut := harness.Figure(len(points), 20, 200), 0
	for i := range rounds {
		point, run := points[i%len(points)], workflow.Run{ID: "a", Definition: kindOf}
		input := map[string]any{"kind": i % 2 * 2}
		dir := filepath.Join(harness.Workspace(t), "engine")
		hook := &testhook.Hook{}
		e, err := pawl.Open(testhook.With(t.Context(), hook), dir, pawl.Options{Executor: pawl.Handlers{"quick": echo, "*": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }}})
		require.NoError(t, err)
		ctx, cancel := context.WithCancelCause(t.Context())
		hit := atomic.Bool{}
		reset := hook.OnHit(func(name string) {
			if name == point && hit.CompareAndSwap(false, true) {
				cancel(gone)
			}
		})
		if err := e.Start(ctx, run, input); err != nil {
			require.ErrorIs(t, err, gone)
			cut++
		}
		reset()
		require.True(t, hit.Load(), point)
		require.NoError(t, e.Start(t.Context(), run, input))
		require.NoError(t, e.Close(t.Context()))
		e, err = pawl.Open(t.Context(), dir, pawl.Options{Executor: pawl.Handlers{"*": echo}})
		require.NoError(t, err)
		_, err = e.Wait(t.Context(), "a")
		require.NoError(t, err)
		starts := 0
		for r, err := range e.Journal(t.Context(), "a", pawl.EventsOptions{}) {
			require.NoError(t, err)
			if _, ok := r.Message.(state.Start); ok {
				starts++
			}
		}
		require.Equal(t, 1, starts)
		require.NoError(t, e.Close(t.Context()))
	}
	require.Positive(t, cut)
	t.Logf("%d contexts done at %d places of a commit, %d callers told so; violations: 0", rounds, len(points), cut)
}

// afterClose calls every method of an engine that is closed, but Close. The key is of an
// attempt that the engine had out.
func afterClose(ctx context.Context, e *pawl.Engine, key pawl.Key) map[string]error {
	first := func(_ any, err error) error { return err }
	previewError := func(_ bool, _ []workflow.Problem, err error) error { return err }
	out := map[string]error{
		"AddBranch":     e.AddBranch(ctx, pawl.GroupTarget{Run: "a", Group: "g"}, 1),
		"AwaitFailure":  e.AwaitFailure(ctx),
		"Backup":        first(e.Backup(ctx, "/nowhere/at/all")),
		"Cancel":        e.Cancel(ctx, "a", ""),
		"CancelNodes":   e.CancelNodes(ctx, "a", "a"),
		"CloseGroup":    e.CloseGroup(ctx, pawl.GroupTarget{Run: "a", Group: "g"}),
		"CollectBlobs":  first(e.CollectBlobs(ctx, time.Hour)),
		"Complete":      e.Complete(ctx, key, 1),
		"Counts":        first(e.Counts(ctx)),
		"Do":            e.Do(ctx, "a", pawl.Pause{}),
		"DoAll":         first(e.DoAll(ctx, pawl.Selection{Runs: &pawl.RunFilter{}}, pawl.Pause{})),
		"DeriveSecret":  first(e.DeriveSecret("x")),
		"Executor":      first(e.Executor()),
		"Export":        e.Export(ctx, "a", io.Discard, pawl.ExportOptions{}),
		"Fail":          e.Fail(ctx, key, errors.New("no")),
		"Fork":          e.Fork(ctx, "a", "b", pawl.ForkOptions{}),
		"Follow":        e.Follow(ctx, pawl.FollowOptions{Log: (&logtest.Memory{}).Writer(nil), Bases: &blob.Files{}}),
		"Forget":        e.Forget(ctx, "k"),
		"ForgetBefore":  first(e.ForgetBefore(ctx, time.Now())),
		"Heartbeat":     e.Heartbeat(ctx, key, nil),
		"Import":        e.Import(ctx, replay.New("x", nil, nil), "b", pawl.ForkOptions{}),
		"Inspect":       first(e.Inspect(ctx, "a")),
		"Once":          first(e.Once(ctx, "k", func(context.Context) (any, error) { return 1, nil })),
		"ObserveFigure": e.ObserveFigure("viewers", func() int64 { return 0 }),
		"OpenArtifact":  first(e.OpenArtifact(ctx, workflow.Artifact{Name: "a", Hash: "sha256:" + strings.Repeat("0", 64)})),
		"OpenBlob":      first(e.OpenBlob(ctx, blob.Ref{Hash: "sha256:" + strings.Repeat("0", 64)})),
		"Overview":      first(e.Overview(ctx, "a")),
		"Patch":         first(e.Patch(ctx, "a", pawl.Patch{Base: 1, Ops: []any{map[string]any{"op": "add", "path": "/version", "value": 2}}})),
		"OpenRecording": first(e.OpenRecording("/nowhere/at/all")),
		"Pause":         e.Pause(ctx, "a"),
		"DiskUse":       first(e.DiskUse(ctx)),
		"DryRunPurge":   first(e.DryRunPurge(ctx, "a")),
		"DryRunPublish": previewError(e.DryRunPublish(ctx, kindOf)),
		"Publish":       first(e.Publish(ctx, kindOf)),
		"Published":     first(e.Published(ctx, "kinds", 0)),
		"Purge":         e.Purge(ctx, "a"),
		"PurgeEnded":    first(e.PurgeEnded(ctx, pawl.Retention{Age: time.Hour})),
		"PutBlob":       first(e.PutBlob(ctx, strings.NewReader("x"), "")),
		"Recording":     first(e.Recording(ctx, "a")),
		"Rerun":         e.Rerun(ctx, pawl.Target{Run: "a", Node: "a"}, "b", pawl.ForkOptions{}),
		"Revision":      first(e.Revision(ctx, "a", 1)),
		"Resume":        e.Resume(ctx, "a"),
		"Retry":         e.Retry(ctx, pawl.Target{Run: "a", Node: "a"}, pawl.RetryOptions{}),
		"Run":           first(e.Run(ctx, workflow.Run{ID: "b", Definition: kindOf}, map[string]any{"kind": 0})),
		"SentAgain":     first(e.SentAgain(ctx, "a")),
		"Schedules":     first(e.Schedules().Get(ctx, "a")),
		"Signal":        e.Signal(ctx, "a", workflow.Signal{Name: "s"}),
		"Simulate":      first(e.Simulate(ctx, pawl.OfRun{Run: "a"})),
		"Skip":          e.Skip(ctx, pawl.Target{Run: "a", Node: "a"}, nil),
		"Start":         e.Start(ctx, workflow.Run{ID: "b", Definition: kindOf}, map[string]any{"kind": 0}),
		"Stats":         first(e.Stats(ctx)),
		"Summary":       first(e.Summary(ctx, "a")),
		"Timings":       first(e.Timings(ctx, history.TimingFilter{})),
		"Vote":          e.Vote(ctx, pawl.Target{Run: "a", Node: "a"}, workflow.Ballot{By: "me", Approved: true}),
		"Wait":          first(e.Wait(ctx, "a")),
		"Why":           first(e.Why(ctx, "a")),
	}
	_, _, out["Definition"] = e.Definition(ctx, "a")
	for _, err := range e.Approvals(ctx, pawl.ApprovalFilter{}) {
		out["Approvals"] = err
	}
	for _, err := range e.Branches(ctx, "a", pawl.BranchFilter{}) {
		out["Branches"] = err
	}
	for _, err := range e.Signals(ctx, "a") {
		out["Signals"] = err
	}
	for _, err := range e.Definitions(ctx, pawl.DefinitionFilter{}) {
		out["Definitions"] = err
	}
	for _, err := range e.DeadLetters(ctx, pawl.DeadLetterFilter{}) {
		out["DeadLetters"] = err
	}
	for _, err := range e.Events(ctx, "a", pawl.EventsOptions{Follow: true}) {
		out["Events"] = err
	}
	for _, err := range e.Journal(ctx, "a", pawl.EventsOptions{Follow: true}) {
		out["Journal"] = err
	}
	for _, err := range e.Revisions(ctx, "a", 0) {
		out["Revisions"] = err
	}
	for _, err := range e.Tokens(ctx, "a", pawl.TokenFilter{}) {
		out["Tokens"] = err
	}
	for _, err := range e.Runs(ctx, pawl.RunFilter{}) {
		out["Runs"] = err
	}
	for _, err := range e.Watch(ctx, pawl.WatchFilter{}) {
		out["Watch"] = err
	}
	return out
}

// Every method of a closed engine says that it is closed.
func TestEveryMethodAfterClose(t *testing.T) {
	dir := filepath.Join(harness.Workspace(t), "engine")
	e, err := pawl.Open(t.Context(), dir, pawl.Options{})
	require.NoError(t, err)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: kindOf}, map[string]any{"kind": 0}))
	snapshot, err := e.Inspect(t.Context(), "a")
	require.NoError(t, err)
	require.NotEmpty(t, snapshot.Tokens[0].Key)
	require.NoError(t, e.Close(t.Context()))
	got := afterClose(t.Context(), e, snapshot.Tokens[0].Key)
	var names []string
	for m := range reflect.TypeFor[*pawl.Engine]().Methods() {
		if m.Name != "Close" {
			names = append(names, m.Name)
		}
	}
	for _, name := range names {
		require.ErrorIs(t, got[name], pawl.ErrClosed, name)
	}
	require.Len(t, got, len(names))
	require.True(t, slices.IsSorted(names))
	require.NoError(t, e.Close(t.Context()))
	t.Logf("%d methods, violations: 0", len(names))
}
