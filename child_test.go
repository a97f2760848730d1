package pawl_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

const parentOfOne = `
name: parent
start: sub
nodes:
  - {id: sub, subworkflow: {name: one}, input: {n: input.n}, output: {output.got: result.n}}
  - {id: rescue, output: {output.why: error.code, output.text: error.message}}
transitions: [{from: sub, to: rescue, outcome: error}]
`

// hold is an executor whose tasks hold until they are not wanted any more.
func hold(ctx context.Context, _ pawl.Task) (any, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// startParent publishes children and starts a run.
func startParent(t testing.TB, e *pawl.Engine, id workflow.RunID, input any, parent string, children ...string) {
	t.Helper()
	for _, text := range children {
		publish(t, e, define(t, text))
	}
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: define(t, parent)}, input))
}

func wait(t testing.TB, e *pawl.Engine, id workflow.RunID) workflow.Outcome {
	t.Helper()
	out, err := e.Wait(t.Context(), id)
	require.NoError(t, err)
	return out
}

func children(t testing.TB, e *pawl.Engine, parent workflow.RunID) []string {
	t.Helper()
	var out []string
	for s, err := range e.Runs(t.Context(), pawl.RunFilter{Parent: parent}) {
		require.NoError(t, err)
		require.Equal(t, parent, s.Parent)
		out = append(out, fmt.Sprintf("%s %s", s.Run, s.Status))
	}
	return out
}

func TestChildCompletes(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": double}})
	startParent(t, e, "p", map[string]int{"n": 21}, parentOfOne, oneTask)
	out := wait(t, e, "p")
	require.NoError(t, out.Err())
	require.Equal(t, map[string]any{"got": int64(42)}, out.Output)
	require.Equal(t, []string{"p/1.1 completed"}, children(t, e, "p"))

	child := wait(t, e, "p/1.1")
	require.Equal(t, map[string]any{"n": int64(42)}, child.Output)
	snap, err := e.Inspect(t.Context(), "p/1.1")
	require.NoError(t, err)
	require.Equal(t, "one", snap.Workflow)
	n := 0
	for _, err := range e.Events(t.Context(), "p/1.1", pawl.EventsOptions{}) {
		require.NoError(t, err)
		n++
	}
	require.Positive(t, n)
	require.ErrorIs(t, e.Start(t.Context(), workflow.Run{ID: "p/1.2", Definition: define(t, oneTask)}, nil), pawl.ErrInvalid)
}

func TestChildFails(t *testing.T) {
	boom := func(context.Context, pawl.Task) (any, error) {
		return nil, pawl.TaskError{Code: "mine", Message: "boom"}
	}
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": boom}})
	startParent(t, e, "p", map[string]int{"n": 1}, parentOfOne, oneTask)
	out := wait(t, e, "p")
	require.NoError(t, out.Err())
	require.Equal(t, map[string]any{"why": "mine", "text": "boom"}, out.Output)
}

// A child whose input is refused does not begin: its node fails.
func TestChildThatIsRefused(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": double}})
	startParent(t, e, "p", map[string]any{"n": "text"}, parentOfOne, oneTask+`
input: {schema: {type: object, properties: {n: {type: integer}}}}
`)
	out := wait(t, e, "p")
	require.Equal(t, workflow.CodeSchema, out.Output["why"])
	require.Empty(t, children(t, e, "p"))
}

// A child that fails as it starts, at a bound, tells its parent all the same.
func TestChildThatFailsAsItStarts(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	startParent(t, e, "p", map[string]any{"n": 1}, parentOfOne, `
name: one
start: split
limits: {tokens: 3}
nodes: [{id: split}, {id: w, task: w}]
transitions: [{from: split, to: w, spawnCount: 5}]
`)
	require.Equal(t, workflow.CodeLimit, wait(t, e, "p").Output["why"])
}

func TestChildRetried(t *testing.T) {
	var calls atomic.Int32
	flaky := func(context.Context, pawl.Task) (any, error) {
		if calls.Add(1) == 1 {
			return nil, errors.New("busy")
		}
		return 7, nil
	}
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": flaky}})
	parent := strings.Replace(parentOfOne, "{name: one},", "{name: one}, retry: {maxAttempts: 3, initialInterval: 1ms},", 1)
	startParent(t, e, "p", map[string]int{"n": 1}, parent, oneTask)
	require.Equal(t, map[string]any{"got": int64(7)}, wait(t, e, "p").Output)
	require.Equal(t, []string{"p/1.1 failed", "p/1.2 completed"}, children(t, e, "p"))
}

// A cancel goes down to the last descendant.
func TestCancelCascades(t *testing.T) {
	begun := make(chan workflow.RunID, 1)
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": func(ctx context.Context, task pawl.Task) (any, error) {
		begun <- task.Run
		return hold(ctx, task)
	}}})
	link := "name: %s\nstart: sub\nnodes: [{id: sub, subworkflow: {name: %s}}]\n"
	startParent(t, e, "p", nil, fmt.Sprintf(link, "a", "b"), fmt.Sprintf(link, "b", "c"), fmt.Sprintf(link, "c", "one2"),
		"name: one2\nstart: w\nnodes: [{id: w, task: work}]\n")
	leaf := <-begun
	require.Equal(t, workflow.RunID("p/1.1/1.1/1.1"), leaf)
	require.NoError(t, e.Cancel(t.Context(), "p", "enough"))
	for id := leaf; id != "p"; id = id[:strings.LastIndexByte(string(id), '/')] {
		require.Equal(t, workflow.RunCancelled, wait(t, e, id).Status, id)
	}
}

// A child that somebody cancels fails its node.
func TestCancelledChild(t *testing.T) {
	begun := make(chan workflow.RunID, 1)
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": func(ctx context.Context, task pawl.Task) (any, error) {
		begun <- task.Run
		return hold(ctx, task)
	}}})
	startParent(t, e, "p", map[string]int{"n": 1}, parentOfOne, oneTask)
	require.NoError(t, e.Cancel(t.Context(), <-begun, "no more"))
	require.Equal(t, map[string]any{"why": workflow.CodeCancelled, "text": "no more"}, wait(t, e, "p").Output)
}

func TestNodeTimeoutCancelsTheChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": hold}})
		parent := strings.Replace(parentOfOne, "{name: one},", "{name: one}, timeout: 5s,", 1)
		startParent(t, e, "p", map[string]int{"n": 1}, parent, oneTask)
		require.Equal(t, workflow.CodeTimeout, wait(t, e, "p").Output["why"])
		require.Equal(t, workflow.RunCancelled, wait(t, e, "p/1.1").Status)
	})
}

// Parent and child sleep while a timer of the child runs, and find each other.
func TestParentAsleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, t.TempDir(), pawl.Options{IdleAfter: time.Second})
		startParent(t, e, "p", map[string]int{"n": 1}, parentOfOne,
			"name: one\nstart: w\nnodes: [{id: w, wait: {for: 100h}, output: {output.n: 5}}]\n")
		require.Equal(t, map[string]any{"got": int64(5)}, wait(t, e, "p").Output)
	})
}

func TestManyChildren(t *testing.T) {
	n := harness.Figure(100, 1000, 1000)
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": double}, Durability: pawl.ProcessCrash, MaxActive: 10})
	startParent(t, e, "p", map[string]int{"n": n}, `
name: wide
start: split
nodes: [{id: split}, {id: sub, subworkflow: {name: one}, input: {n: index}}, {id: sum, output: {output.all: size(state.all)}}]
transitions:
  - {from: split, to: sub, foreach: {collection: "lists.range(input.n)"}, siblingGroup: g}
  - {from: sub, to: sum, synchronization: {siblingGroup: g, merge: {strategy: collect, source: result.n, target: state.all}}}
`, oneTask)
	out := wait(t, e, "p")
	require.NoError(t, out.Err())
	require.Equal(t, map[string]any{"all": int64(n)}, out.Output)
	require.Len(t, children(t, e, "p"), n)
}

// recursive calls itself until n is 0.
const recursive = `
name: down
start: choose
nodes:
  - {id: choose}
  - {id: deeper, subworkflow: {name: down}, input: {n: input.n - 1}, output: {output.depth: result.depth + 1}}
  - {id: leaf, output: {output.depth: 0}}
transitions:
  - {from: choose, to: deeper, condition: input.n > 0}
  - {from: choose, to: leaf, condition: input.n <= 0}
`

func TestChainOfDescendants(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	publish(t, e, define(t, recursive))
	out, err := e.Run(t.Context(), workflow.Run{ID: "p", Workflow: "down"}, map[string]int{"n": 10})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"depth": int64(10)}, out.Output)
}

func TestDepthLimit(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	publish(t, e, define(t, recursive))
	out, err := e.Run(t.Context(), workflow.Run{ID: "p", Workflow: "down"}, map[string]int{"n": 17})
	require.NoError(t, err)
	require.Equal(t, workflow.CodeLimit, out.Failure.Code, "%v", out.Failure)
	require.Contains(t, out.Failure.Message, "subworkflowDepth: more than 16")
}

func TestDescendantsLimit(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	limited := "limits: {descendants: 3}\n" + recursive
	publish(t, e, define(t, recursive))
	for n, want := range map[int]workflow.RunStatus{3: workflow.RunCompleted, 4: workflow.RunFailed} {
		out, err := e.Run(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("p", n)), Definition: define(t, limited)}, map[string]int{"n": n})
		require.NoError(t, err)
		require.Equal(t, want, out.Status, "%d descendants", n)
		if want == workflow.RunFailed {
			require.Equal(t, workflow.CodeLimit, out.Failure.Code)
			require.Contains(t, out.Failure.Message, "descendants")
		}
	}
}

// Children that ask for the last places at the same time are no fault of the
// engine: those that come too late fail, and nothing is logged.
func TestDescendantsBeginTogether(t *testing.T) {
	var log bytes.Buffer
	e := open(t, t.TempDir(), pawl.Options{
		Executor:   pawl.Handlers{"work": double},
		Durability: pawl.ProcessCrash,
		Logger:     slog.New(slog.NewTextHandler(&log, nil)),
	})
	startParent(t, e, "p", map[string]int{"n": 64}, `
name: wide
limits: {descendants: 32}
start: split
nodes: [{id: split}, {id: sub, subworkflow: {name: one}, input: {n: index}}, {id: sum, output: {output.all: size(state.all)}}]
transitions:
  - {from: split, to: sub, foreach: {collection: "lists.range(input.n)"}, siblingGroup: g}
  - {from: sub, to: sum, synchronization: {siblingGroup: g, tolerate: {failures: 32}, merge: {strategy: collect, source: result.n, target: state.all}}}
`, oneTask)
	out := wait(t, e, "p")
	require.NoError(t, out.Err())
	require.Equal(t, map[string]any{"all": int64(32)}, out.Output)
	require.NoError(t, e.Close(t.Context()))
	require.Empty(t, withoutWaits(log.String()))
}

// The start of the root settles which definition a subworkflow means.
func TestPins(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{
		"work": double, "gate": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending },
	}})
	gated := strings.Replace(parentOfOne, "start: sub\nnodes:", "start: gate\nnodes:\n  - {id: gate, task: gate}", 1)
	gated = strings.Replace(gated, "transitions: [", "transitions: [{from: gate, to: sub}, ", 1)
	run := workflow.Run{ID: "p", Definition: define(t, gated)}
	err := e.Start(t.Context(), run, map[string]int{"n": 4})
	require.ErrorIs(t, err, pawl.ErrNotPublished)
	require.ErrorContains(t, err, `"sub"`)
	require.ErrorContains(t, err, "no version of one is published")

	publish(t, e, define(t, oneTask))
	require.NoError(t, e.Start(t.Context(), run, map[string]int{"n": 4}))
	newer := "version: 2\n" + strings.Replace(oneTask, "output.n: result", "output.n: -1", 1)
	publish(t, e, define(t, newer))
	require.NoError(t, e.Start(t.Context(), run, map[string]int{"n": 4}), "a repeat, although a newer version is published")
	require.NoError(t, e.Skip(t.Context(), pawl.Target{Run: "p", Node: "gate"}, nil))
	require.Equal(t, map[string]any{"got": int64(8)}, wait(t, e, "p").Output)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "q", Definition: define(t, parentOfOne)}, map[string]int{"n": 4}))
	require.Equal(t, map[string]any{"got": int64(-1)}, wait(t, e, "q").Output)
}

// A patch looks up the definitions that it adds, and no others: a newer version of one that is pinned may name a definition that
// nobody has published.
func TestPinsOfPatches(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": double}})
	gated := strings.Replace(parentOfOne, "start: sub\nnodes:", "start: gate\nnodes:\n  - {id: gate, wait: {event: go}}", 1)
	gated = strings.Replace(gated, "transitions: [", "transitions: [{from: gate, to: sub}, ", 1)
	startParent(t, e, "p", map[string]int{"n": 4}, gated, oneTask)
	publish(t, e, define(t, "name: one\nversion: 2\nstart: s\nnodes: [{id: s, subworkflow: {name: nowhere}}]\n"))
	patch := func(base int, ops ...any) error {
		_, err := e.Patch(t.Context(), "p", pawl.Patch{Base: base, Ops: ops})
		return err
	}
	child := func(name string) []any {
		n := map[string]any{"subworkflow": map[string]any{"name": name}, "input": map[string]any{"n": "input.n"}}
		return []any{op("add", "/nodes/"+name, n), op("add", "/transitions/"+name, map[string]any{"from": "gate", "to": name})}
	}
	require.NoError(t, patch(1, op("add", "/nodes/sub/timeout", "1h")))
	publish(t, e, define(t, strings.Replace(oneTask, "name: one", "name: other", 1)))
	require.NoError(t, patch(2, child("other")...))
	require.ErrorIs(t, patch(3, child("nowhere")...), pawl.ErrNotPublished)

	added := map[int][]string{}
	for r, err := range e.Journal(t.Context(), "p", pawl.EventsOptions{}) {
		require.NoError(t, err)
		for _, d := range r.Decisions {
			if p, ok := d.(decision.PatchRun); ok {
				for _, pin := range p.Pins {
					added[p.Revision] = append(added[p.Revision], pin.Name)
				}
			}
		}
	}
	require.Equal(t, map[int][]string{3: {"other"}}, added)
	require.NoError(t, e.Signal(t.Context(), "p", workflow.Signal{Name: "go"}))
	require.Equal(t, map[string]any{"got": int64(8)}, wait(t, e, "p").Output)
}

// A pause passes on to children, and so does the end of it, also when the
// engine was closed in between.
func TestPausePassesOn(t *testing.T) {
	dir := t.TempDir()
	keys := make(chan pawl.Key, 4)
	o := pawl.Options{Executor: pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
		keys <- task.Key
		return nil, pawl.ErrPending
	}}}
	e, err := pawl.Open(t.Context(), dir, o)
	require.NoError(t, err)
	startParent(t, e, "p", map[string]int{"n": 1}, parentOfOne, oneTask)
	key := <-keys
	require.NoError(t, e.Pause(t.Context(), "p"))
	until(t, e, "p/1.1", workflow.RunPaused)
	require.NoError(t, e.Close(t.Context()))

	e = open(t, dir, o)
	require.NoError(t, e.Resume(t.Context(), "p"))
	until(t, e, "p/1.1", workflow.RunRunning)
	require.NoError(t, e.Complete(t.Context(), key, 3))
	require.Equal(t, map[string]any{"got": int64(3)}, wait(t, e, "p").Output)
}

// until waits until a run has come to a status.
func until(t *testing.T, e *pawl.Engine, id workflow.RunID, want workflow.RunStatus) {
	t.Helper()
	for _, err := range e.Events(t.Context(), id, pawl.EventsOptions{Follow: true}) {
		require.NoError(t, err)
		snap, err := e.Inspect(t.Context(), id)
		require.NoError(t, err)
		if snap.Status == want {
			return
		}
	}
	t.Fatalf("%s has ended", id)
}

// The engine is closed between any two steps of parent and child: nothing is
// lost and nothing comes twice.
func TestCloseBetweenParentAndChild(t *testing.T) {
	for _, point := range []string{
		"release.child", "child.want", "child.started", "child.ended", "child.told", "child.asks", "child.cancel",
	} {
		for n := int32(1); n <= harness.Figure[int32](1, 3, 3); n++ {
			t.Run(fmt.Sprintf("%s/%d", point, n), func(t *testing.T) { closeAt(t, point, n) })
		}
	}
}

// closeAt plays a retried and a cancelled child, and closes the engine at the
// n-th hit of a failpoint.
func closeAt(t *testing.T, point string, n int32) {
	dir := t.TempDir()
	handlers := pawl.Handlers{"work": double, "hold": hold, "flaky": func(_ context.Context, task pawl.Task) (any, error) {
		if strings.HasSuffix(string(task.Run), ".1") {
			return nil, errors.New("busy")
		}
		return 5, nil
	}}
	o := pawl.Options{Executor: handlers, IdleAfter: time.Millisecond}
	hook := &testhook.Hook{}
	e, err := pawl.Open(testhook.With(t.Context(), hook), dir, o)
	require.NoError(t, err)
	publish(t, e, define(t, oneTask))
	publish(t, e, define(t, "name: flaky\nstart: w\nnodes: [{id: w, task: flaky, output: {output.n: result}}]\n"))
	publish(t, e, define(t, "name: slow\nstart: w\nnodes: [{id: w, task: hold}]\n"))
	reached := make(chan struct{}, 1)
	var hits atomic.Int32
	reset := hook.OnHit(func(name string) {
		if name == point && hits.Add(1) == n {
			reached <- struct{}{}
		}
	})
	run := workflow.Run{ID: "p", Definition: define(t, `
name: family
start: split
nodes:
  - {id: split}
  - {id: a, subworkflow: {name: one}, input: {n: 4}, output: {output.a: result.n}}
  - {id: b, subworkflow: {name: flaky}, retry: {maxAttempts: 2, initialInterval: 1ms}, output: {output.b: result.n}}
  - {id: c, subworkflow: {name: slow}, timeout: 50ms}
  - {id: late, output: {output.c: error.code}}
transitions: [{from: split, to: a}, {from: split, to: b}, {from: split, to: c}, {from: c, to: late, outcome: error}]
`)}
	require.NoError(t, e.Start(t.Context(), run, nil))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = e.Wait(t.Context(), "p") // or the engine is closed
	}()
	select {
	case <-reached:
	case <-ended:
	}
	reset()
	require.NoError(t, e.Close(t.Context()))
	<-ended

	e = open(t, dir, o)
	out := wait(t, e, "p")
	require.NoError(t, out.Err())
	require.Equal(t, map[string]any{"a": int64(8), "b": int64(5), "c": "timeout"}, out.Output)
	var got []string
	for s, err := range e.Runs(t.Context(), pawl.RunFilter{Parent: "p"}) {
		require.NoError(t, err)
		got = append(got, fmt.Sprintf("%s %v", s.Workflow, wait(t, e, s.Run).Status))
	}
	slow := func(child string) bool { return child == "slow cancelled" } // or its time was over before it could begin
	require.ElementsMatch(t, []string{"one completed", "flaky failed", "flaky completed"}, slices.DeleteFunc(got, slow))
}

// Nothing begins below a run that was cancelled: neither tasks that wait for a slot, whose runs hear of it level by level, nor
// children whose start is on its way.
func TestNothingBeginsBelowACancelledRun(t *testing.T) {
	const most = 4
	level := func(name, of string, n int) string {
		return fmt.Sprintf(`
name: %s
start: split
nodes: [{id: split}, {id: sub, subworkflow: {name: %s}}, {id: all}]
transitions:
  - {from: split, to: sub, foreach: {collection: "lists.range(%d)"}, siblingGroup: g}
  - {from: sub, to: all, synchronization: {siblingGroup: g}}
`, name, of, n)
	}
	for _, all := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var begun, wanted atomic.Int64
			first, cancelled := make(chan bool, 1), make(chan bool)
			hook := &testhook.Hook{}
			hook.OnHit(func(point string) {
				if point == "child.want" && wanted.Add(1) > 100 && !all {
					<-cancelled
				}
			})
			e := openWith(t, hook, t.TempDir(), pawl.Options{
				Concurrency: most, Durability: pawl.ProcessCrash,
				Executor: pawl.Handlers{"work": func(ctx context.Context, _ pawl.Task) (any, error) {
					if begun.Add(1) == 1 {
						first <- true
					}
					<-ctx.Done()
					return nil, ctx.Err()
				}},
			})
			publish(t, e, define(t, "name: leaf\nstart: a\nnodes: [{id: a, task: work}]\n"))
			publish(t, e, define(t, level("middle", "leaf", 20)))
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "root", Definition: define(t, level("top", "middle", 10))}, nil))
			if <-first; all {
				synctest.Wait()
				stats, err := e.Stats(t.Context())
				require.NoError(t, err)
				require.Equal(t, []int{most, 200 - most}, []int{stats.Running, stats.Queued})
			}
			before := begun.Load()
			require.NoError(t, e.Cancel(t.Context(), "root", "enough"))
			close(cancelled)
			synctest.Wait()
			require.LessOrEqual(t, begun.Load()-before, int64(2*most), "of 200 tasks")
			runs, live := 0, 0
			for run, err := range e.Runs(t.Context(), pawl.RunFilter{}) {
				require.NoError(t, err)
				if runs++; run.Status != workflow.RunCancelled {
					live++
				}
			}
			require.Zero(t, live, "of %d runs", runs)
			if !all {
				require.Less(t, runs, 211, "no start was dropped")
			}
		})
	}
}

const looked = `
name: looked
start: split
signals: [later]
nodes:
  - {id: split, output: {output.begun: "true"}}
  - {id: work, task: work, output: {state.mine: result.n, output.of: item}}
  - {id: more, task: wait}
  - {id: sum}
transitions:
  - {from: split, to: work, foreach: {collection: input.items}, siblingGroup: items}
  - {from: work, to: more}
  - {from: more, to: sum, synchronization: {siblingGroup: items}}
`

// A run that goes on shows its input, what of its output there is, what its branches hold, and
// which signals and artifacts wait.
func TestALiveRunShowsWhatItHolds(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		e := open(t, dir, pawl.Options{Executor: pawl.Handlers{
			"wait": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending },
			"work": func(ctx context.Context, task pawl.Task) (any, error) {
				if task.Input == nil || task.Branch.Index == 2 {
					return nil, errors.New("no")
				}
				ref, err := task.Put(ctx, strings.NewReader("page"), "text/plain")
				return pawl.Result{Output: map[string]any{"n": task.Branch.Index}, Artifacts: []pawl.Artifact{{Name: task.EffectKey, Blob: ref}}}, err
			},
		}})
		def := define(t, looked)
		input := map[string]any{"items": []any{"a", "b", "c"}}
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: def}, map[string]any{"items": []any{"a", "b"}}))
		require.NoError(t, e.Signal(t.Context(), "r", workflow.Signal{Name: "later", ID: "x", Payload: map[string]any{"n": 1}}))
		synctest.Wait()

		snap, err := e.Inspect(t.Context(), "r")
		require.NoError(t, err)
		require.Equal(t, map[string]any{"items": []any{"a", "b"}}, snap.Input)
		require.Equal(t, map[string]any{"begun": true}, snap.OutputSoFar)
		require.Nil(t, snap.Output)
		require.Len(t, snap.Staged, 2)
		require.Equal(t, 1, snap.Signals)
		require.Equal(t, "root", snap.Tokens[0].Path)
		require.Equal(t, "root/split:1", snap.Tokens[2].Path)

		var signals []pawl.KeptSignal
		for s, err := range e.Signals(t.Context(), "r") {
			require.NoError(t, err)
			signals = append(signals, s)
		}
		require.Equal(t, []pawl.KeptSignal{{Seq: 1, Name: "later", ID: "x", Payload: map[string]any{"n": int64(1)}}}, signals)

		branches := branchesOf(t, e, "r", pawl.BranchFilter{})
		require.Len(t, branches, 2)
		require.Equal(t, pawl.BranchView{
			Group: 1, Index: 1, Path: "root/split:1", Token: 3, Status: "running", Begun: true, Live: 1, Item: "b",
			State: map[string]any{"mine": int64(1)}, Output: map[string]any{"of": "b"},
		}, branches[1])
		text, err := json.Marshal(branches[1])
		require.NoError(t, err)
		require.Contains(t, string(text), `"status":"running"`)
		require.Empty(t, branchesOf(t, e, "r", pawl.BranchFilter{Status: "failed"}))
		require.Empty(t, branchesOf(t, e, "r", pawl.BranchFilter{Group: 2}))
		require.Empty(t, branchesOf(t, e, "r", pawl.BranchFilter{Group: -1}))
		for _, err := range e.Branches(t.Context(), "r", pawl.BranchFilter{Status: "walking"}) {
			require.ErrorIs(t, err, pawl.ErrInvalid)
		}

		out, err := e.Run(t.Context(), workflow.Run{ID: "failed", Definition: def}, input)
		require.NoError(t, err)
		require.Equal(t, workflow.RunFailed, out.Status)
		failed := branchesOf(t, e, "failed", pawl.BranchFilter{Status: "failed"})
		require.Len(t, failed, 1)
		require.Equal(t, 2, failed[0].Index)
		require.Equal(t, "error", failed[0].Failure.Code)
		ended, err := e.Inspect(t.Context(), "failed")
		require.NoError(t, err)
		require.Nil(t, ended.OutputSoFar)
		require.Nil(t, ended.Staged)
		require.NoError(t, e.Close(t.Context()))
	})
}

func branchesOf(t *testing.T, e *pawl.Engine, id workflow.RunID, f pawl.BranchFilter) (out []pawl.BranchView) {
	t.Helper()
	for b, err := range e.Branches(t.Context(), id, f) {
		require.NoError(t, err)
		out = append(out, b)
	}
	return out
}

// A dag shows the nodes that are left to do, in the order of the definition.
func TestADagShowsWhatRemains(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	def := define(t, `{name: d, mode: dag, nodes: [{id: a}, {id: b, task: b}, {id: c}, {id: d, task: d}], transitions: [
		{from: a, to: b}, {from: b, to: c}, {from: a, to: d, condition: "false"}]}`)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: def}, nil))
	snap, err := e.Inspect(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, []workflow.NodeID{"b", "c"}, snap.Remaining)
}

// Branches come page by page, all of them once.
func TestBranchesOfAWideRun(t *testing.T) {
	e := loading(t, t.TempDir(), 1200) // more than two pages
	for i, b := range branchesOf(t, e, "r", pawl.BranchFilter{}) {
		require.Equal(t, i, b.Index)
	}
	require.Len(t, branchesOf(t, e, "r", pawl.BranchFilter{Group: 1}), 1200)
	for _, err := range e.Branches(t.Context(), "nobody", pawl.BranchFilter{}) {
		require.ErrorIs(t, err, pawl.ErrRunNotFound)
	}
}
