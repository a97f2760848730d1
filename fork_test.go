package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/workflow"
)

const quotes = `
name: quotes
start: s
nodes:
  - {id: s}
  - {id: quote, task: quote, input: {of: item}}
  - {id: best, task: best, input: {all: state.quotes}, output: {output.best: result, output.run: run.id}}
transitions:
  - {from: s, to: quote, foreach: {collection: input.of}, siblingGroup: g}
  - {from: quote, to: best, synchronization: {siblingGroup: g, merge: {source: result, target: state.quotes, strategy: append}}}
`

// tasksOut returns the keys of the tasks of a run that are out, by node and branch.
func tasksOut(t testing.TB, e *pawl.Engine, id workflow.RunID) map[string]pawl.Key {
	t.Helper()
	s, err := e.Inspect(t.Context(), id)
	require.NoError(t, err)
	out := map[string]pawl.Key{}
	for _, x := range s.Tokens {
		if x.Status == workflow.Dispatched {
			out[fmt.Sprint(x.Node, x.Scope.Branch)] = x.Key
		}
	}
	return out
}

func outcomeOf(t testing.TB, e *pawl.Engine, id workflow.RunID) workflow.Outcome {
	t.Helper()
	out, err := e.Wait(t.Context(), id)
	require.NoError(t, err)
	return out
}

func eventTypes(t testing.TB, e *pawl.Engine, id workflow.RunID) (out []string) {
	t.Helper()
	for ev, err := range e.Events(t.Context(), id, pawl.EventsOptions{}) {
		require.NoError(t, err)
		out = append(out, string(ev.Type))
	}
	return out
}

// A live run with branches is forked: both go on by themselves, under keys of their own,
// and the fork knows where it comes from, also after a restart.
func TestForkOfALiveRun(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir, pawl.Options{})
	of := []any{"acme", "bolt", "cord"}
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, quotes), Tenant: "us"}, map[string]any{"of": of}))
	require.NoError(t, e.Complete(t.Context(), tasksOut(t, e, "a")["quote1"], int64(11)))

	next, stop := iter.Pull2(e.Watch(t.Context(), pawl.WatchFilter{Prefix: "b"}))
	defer stop()
	_, err, _ := next() // Lost
	require.NoError(t, err)
	require.NoError(t, e.Fork(pawl.As(t.Context(), "ann"), "a", "b", pawl.ForkOptions{}))
	change, err, _ := next()
	require.NoError(t, err)
	require.Equal(t, int64(3), change.Seq)
	source, fork := tasksOut(t, e, "a"), tasksOut(t, e, "b")
	require.Len(t, source, 2)
	require.Len(t, fork, 2)
	for node, key := range source {
		require.NotEqual(t, key, fork[node])
		require.NoError(t, e.Complete(t.Context(), key, int64(1)))
	}
	require.NoError(t, e.Complete(t.Context(), tasksOut(t, e, "a")["best0"], "done"))
	require.Equal(t, map[string]any{"best": "done", "run": "a"}, outcomeOf(t, e, "a").Output)

	b, err := e.Inspect(t.Context(), "b")
	require.NoError(t, err)
	require.Equal(t, workflow.ForkPoint{Run: "a", Record: 2}, b.ForkedFrom)
	require.Equal(t, "us", b.Tenant)
	require.Equal(t, int64(3), b.Seq)
	require.Contains(t, eventTypes(t, e, "b"), "workflow.forked")
	require.NotContains(t, eventTypes(t, e, "a"), "workflow.forked")

	for node, key := range fork {
		require.NoError(t, e.Complete(t.Context(), key, node))
	}
	again := tasksOut(t, e, "b")
	require.Equal(t, map[string]any{"quotes": []any{"quote0", int64(11), "quote2"}}, mustInspect(t, e, "b").State)
	require.NoError(t, e.Complete(t.Context(), again["best0"], "done"))
	require.Equal(t, map[string]any{"best": "done", "run": "b"}, outcomeOf(t, e, "b").Output)

	var forks []workflow.RunID
	for r, err := range e.Runs(t.Context(), pawl.RunFilter{ForkedFrom: "a"}) {
		require.NoError(t, err)
		require.Equal(t, workflow.ForkPoint{Run: "a", Record: 2}, r.ForkedFrom)
		forks = append(forks, r.Run)
	}
	require.Equal(t, []workflow.RunID{"b"}, forks)
}

func mustInspect(t testing.TB, e *pawl.Engine, id workflow.RunID) pawl.Snapshot {
	t.Helper()
	s, err := e.Inspect(t.Context(), id)
	require.NoError(t, err)
	return s
}

const chain = `
name: chain
start: a
nodes:
  - {id: a, task: a, output: {state.a: result}}
  - {id: b, task: b, retry: {maxAttempts: 2, initialInterval: 1s}, input: {a: state.a}, output: {output.b: result}}
transitions: [{from: a, to: b}]
`

// A run that failed is continued from the node that failed it: what came before is not
// performed again.
func TestRerunContinuesAFailedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, broken := map[string]int{}, true
		e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{
			"a": func(context.Context, pawl.Task) (any, error) { calls["a"]++; return "first", nil },
			"b": func(_ context.Context, task pawl.Task) (any, error) {
				if calls["b"]++; broken {
					return nil, errors.New("no luck")
				}
				return string(task.Run) + fmt.Sprint(task.Attempt), nil
			},
		}})
		out, err := e.Run(t.Context(), workflow.Run{ID: "r", Definition: define(t, chain)}, nil)
		require.NoError(t, err)
		require.Equal(t, workflow.RunFailed, out.Status)
		broken = false

		require.NoError(t, e.Rerun(t.Context(), pawl.Target{Run: "r", Node: "b"}, "r2", pawl.ForkOptions{}))
		require.Equal(t, map[string]any{"b": "r21"}, outcomeOf(t, e, "r2").Output)
		require.Equal(t, map[string]int{"a": 1, "b": 3}, calls)
		require.Equal(t, workflow.ForkPoint{Run: "r", Record: 2}, mustInspect(t, e, "r2").ForkedFrom)

		require.NoError(t, e.Fork(t.Context(), "r", "r3", pawl.ForkOptions{}), "as it stood before it ended: with the second attempt out")
		require.Equal(t, map[string]any{"b": "r32"}, outcomeOf(t, e, "r3").Output)

		require.NoError(t, e.Rerun(t.Context(), pawl.Target{Run: "r", Node: "a"}, "r4", pawl.ForkOptions{}))
		require.Equal(t, map[string]any{"b": "r41"}, outcomeOf(t, e, "r4").Output)
		require.Equal(t, 2, calls["a"])
		require.NoError(t, e.Rerun(t.Context(), pawl.Target{Run: "r", Node: "a"}, "r4", pawl.ForkOptions{}), "the same again")
		require.NoError(t, e.Rerun(t.Context(), pawl.Target{Run: "r", Token: 1}, "r4", pawl.ForkOptions{}), "the same again")
		require.ErrorIs(t, e.Rerun(t.Context(), pawl.Target{Run: "r", Node: "b"}, "r4", pawl.ForkOptions{}), pawl.ErrRunExists)
		require.ErrorIs(t, e.Rerun(t.Context(), pawl.Target{Run: "r", Node: "nowhere"}, "r5", pawl.ForkOptions{}), pawl.ErrNotLive)
		require.ErrorIs(t, e.Rerun(t.Context(), pawl.Target{Run: "r", Token: 7}, "r5", pawl.ForkOptions{}), pawl.ErrNotLive)
	})
}

// Tasks that were out wait for an operator if that is asked for, or come to given results.
func TestForkOfTasksThatWereOut(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, quotes)}, map[string]any{"of": []any{"x", "y"}}))

	require.NoError(t, e.Fork(t.Context(), "a", "parked", pawl.ForkOptions{InFlight: workflow.InFlightPark}))
	require.Empty(t, tasksOut(t, e, "parked"))
	var letters []workflow.TokenID
	for l, err := range e.DeadLetters(t.Context(), pawl.DeadLetterFilter{Run: "parked"}) {
		require.NoError(t, err)
		require.Equal(t, workflow.CodeForked, l.Failure.Code)
		letters = append(letters, l.Token)
	}
	require.Len(t, letters, 2)
	require.NoError(t, e.Retry(t.Context(), pawl.Target{Run: "parked", Token: letters[0]}, pawl.RetryOptions{}))
	require.NoError(t, e.Skip(t.Context(), pawl.Target{Run: "parked", Token: letters[1]}, "skipped"))
	require.Len(t, tasksOut(t, e, "parked"), 1)

	given := pawl.ForkOptions{Results: []workflow.ForkResult{{Token: letters[0], Output: 1}, {Token: letters[1], Output: 2}}}
	require.NoError(t, e.Fork(t.Context(), "a", "given", given))
	require.Equal(t, []any{int64(1), int64(2)}, mustInspect(t, e, "given").State["quotes"])
	require.Len(t, tasksOut(t, e, "given"), 1)
	require.NoError(t, e.Fork(t.Context(), "a", "given", given), "the same again")

	one := pawl.ForkOptions{Results: given.Results[:1], InFlight: workflow.InFlightPark}
	require.NoError(t, e.Fork(t.Context(), "a", "one", one))
	require.Equal(t, 1, mustInspect(t, e, "one").Groups[0].Arrived)
	require.Empty(t, tasksOut(t, e, "one"))

	for name, o := range map[string]pawl.ForkOptions{
		"two of the node":  {Results: []workflow.ForkResult{{Node: "quote"}}},
		"none of the node": {Results: []workflow.ForkResult{{Node: "best"}}},
		"one task twice":   {Results: []workflow.ForkResult{{Token: letters[0]}, {Token: letters[0]}}},
		"no such task":     {Results: []workflow.ForkResult{{Token: 99}}},
	} {
		err := e.Fork(t.Context(), "a", "bad", o)
		require.True(t, errors.Is(err, pawl.ErrNotLive) || errors.Is(err, pawl.ErrAmbiguous), "%s: %v", name, err)
		_, err = e.Inspect(t.Context(), "bad")
		require.ErrorIs(t, err, pawl.ErrRunNotFound)
	}
	require.ErrorIs(t, e.Fork(t.Context(), "a", "given", one), pawl.ErrRunExists)
	require.ErrorIs(t, e.Fork(t.Context(), "a", "given", pawl.ForkOptions{}), pawl.ErrRunExists)
}

func TestForkRefusals(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": double}})
	def := define(t, oneTask)
	_, err := e.Run(t.Context(), workflow.Run{ID: "a", Definition: def}, map[string]any{"n": 1})
	require.NoError(t, err)
	fork := func(id, newID workflow.RunID, o pawl.ForkOptions) error { return e.Fork(t.Context(), id, newID, o) }

	var fe *pawl.ForkError
	require.ErrorAs(t, fork("a", "b", pawl.ForkOptions{At: 2}), &fe)
	require.Equal(t, pawl.ForkError{Run: "a", Record: 2, Last: 2, Err: pawl.ErrEnded}, *fe)
	require.EqualError(t, fe, `run "a" cannot be forked as of record 2: it had ended; up to record 1 it can`)
	require.ErrorAs(t, fork("a", "b", pawl.ForkOptions{At: 3}), &fe)
	require.Equal(t, pawl.ForkError{Run: "a", Record: 3, Last: 2, Err: pawl.ErrInvalid}, *fe)
	require.ErrorIs(t, fork("a", "b", pawl.ForkOptions{At: -1}), pawl.ErrInvalid)
	require.ErrorIs(t, fork("a", "b", pawl.ForkOptions{InFlight: "later"}), pawl.ErrInvalid)
	require.ErrorIs(t, fork("a", "b/c", pawl.ForkOptions{}), pawl.ErrInvalid)
	require.ErrorIs(t, fork("a", "b", pawl.ForkOptions{Results: []workflow.ForkResult{{Token: 1, Output: func() {}}}}), pawl.ErrInvalid)
	require.ErrorIs(t, fork("none", "b", pawl.ForkOptions{}), pawl.ErrRunNotFound)
	require.ErrorIs(t, fork("a", "a", pawl.ForkOptions{}), pawl.ErrRunExists)
	require.ErrorIs(t, e.Rerun(t.Context(), pawl.Target{Run: "a"}, "b", pawl.ForkOptions{}), pawl.ErrInvalid)
	require.ErrorIs(t, e.Rerun(t.Context(), pawl.Target{Run: "a", Node: "work"}, "b", pawl.ForkOptions{At: 1}), pawl.ErrInvalid)

	require.NoError(t, fork("a", "b", pawl.ForkOptions{}))
	require.Equal(t, int64(2), outcomeOf(t, e, "b").Output["n"])
	require.NoError(t, fork("a", "b", pawl.ForkOptions{At: 1}), "the same again")
	require.ErrorIs(t, fork("a", "b", pawl.ForkOptions{At: 2}), pawl.ErrRunExists)
	require.ErrorIs(t, e.Start(t.Context(), workflow.Run{ID: "b", Definition: def}, map[string]any{"n": 1}), pawl.ErrRunExists)
	require.NoError(t, e.Purge(t.Context(), "a"))
	require.NoError(t, fork("a", "b", pawl.ForkOptions{}), "the same again")
	require.ErrorIs(t, fork("a", "c", pawl.ForkOptions{}), pawl.ErrRunNotFound)
	require.NoError(t, fork("b", "c", pawl.ForkOptions{At: 1}), "a fork of a fork, as of before it was one")
	require.Equal(t, int64(2), outcomeOf(t, e, "c").Output["n"])
	require.NoError(t, fork("b", "d", pawl.ForkOptions{}), "and behind it")
	require.Equal(t, workflow.ForkPoint{Run: "b", Record: 2}, mustInspect(t, e, "d").ForkedFrom)

	at := `
name: ends
start: a
nodes: [{id: a, end: {fail: broken}}]
`
	_, err = e.Run(t.Context(), workflow.Run{ID: "ends", Definition: define(t, at)}, nil)
	require.NoError(t, err)
	require.EqualError(t, fork("ends", "f", pawl.ForkOptions{}), `run "ends" cannot be forked: it ended with its first record; start it again`)
}

const waits = `
name: waits
start: s
timeout: 10h
signals: [early]
nodes:
  - {id: s}
  - {id: nap, wait: {for: 1h}, output: {output.nap: "true"}}
  - {id: ask, approval: {quorum: 2}, timeout: 2h}
  - {id: event, wait: {event: go}, output: {output.go: result.payload}}
  - {id: work, task: work, timeout: 30m, output: {output.work: result}}
transitions: [{from: s, to: nap}, {from: s, to: ask}, {from: s, to: event}, {from: s, to: work}]
`

// A wait for time lasts as long as was left; votes and kept signals are there; an attempt
// that is sent again has its whole time.
func TestForkKeepsWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, t.TempDir(), pawl.Options{})
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, waits)}, nil))
		begun := time.Now()
		<-time.After(20 * time.Minute)
		require.NoError(t, e.Vote(t.Context(), pawl.Target{Run: "a", Node: "ask"}, workflow.Ballot{By: "ann", Approved: true}))
		require.NoError(t, e.Signal(t.Context(), "a", workflow.Signal{Name: "early", TTL: time.Hour}))
		<-time.After(5 * time.Minute)

		require.NoError(t, e.Fork(t.Context(), "a", "past", pawl.ForkOptions{At: 2}))
		require.NoError(t, e.Fork(t.Context(), "a", "now", pawl.ForkOptions{}))
		dues := func(id workflow.RunID) map[workflow.NodeID]time.Duration {
			out := map[workflow.NodeID]time.Duration{}
			for _, x := range mustInspect(t, e, id).Tokens {
				if !x.Due.IsZero() {
					out[x.Node] = time.Until(x.Due).Round(time.Second)
				}
			}
			return out
		}
		require.Equal(t, map[workflow.NodeID]time.Duration{"nap": 40 * time.Minute, "ask": 100 * time.Minute, "work": 30 * time.Minute}, dues("past"))
		require.Equal(t, map[workflow.NodeID]time.Duration{"nap": 35 * time.Minute, "ask": 95 * time.Minute, "work": 30 * time.Minute}, dues("now"))
		require.Equal(t, map[workflow.NodeID]time.Duration{"nap": 35 * time.Minute, "ask": 95 * time.Minute, "work": 5 * time.Minute}, dues("a"))
		require.Equal(t, 5*time.Minute, mustInspect(t, e, "past").StartedAt.Sub(begun).Round(time.Second), "the fork has run for as long as the run had")
		require.Equal(t, mustInspect(t, e, "a").StartedAt, mustInspect(t, e, "now").StartedAt)

		require.ErrorIs(t, e.Vote(t.Context(), pawl.Target{Run: "past", Node: "ask"}, workflow.Ballot{By: "ann", Approved: true}), pawl.ErrAlreadyVoted)
		require.NoError(t, e.Vote(t.Context(), pawl.Target{Run: "past", Node: "ask"}, workflow.Ballot{By: "bob", Approved: true}))
		require.NoError(t, e.Signal(t.Context(), "past", workflow.Signal{Name: "go", Payload: 5}))
		require.NoError(t, e.Complete(t.Context(), tasksOut(t, e, "past")["work0"], 6))
		out := outcomeOf(t, e, "past")
		require.Equal(t, map[string]any{"nap": true, "go": int64(5), "work": int64(6)}, out.Output)
		require.Equal(t, 65*time.Minute, time.Since(begun).Round(time.Second))
		require.NoError(t, e.Cancel(t.Context(), "a", ""))
		require.NoError(t, e.Cancel(t.Context(), "now", ""))
	})
}

// Blobs are shared: they outlive the run that brought them.
func TestForkSharesBlobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, t.TempDir(), pawl.Options{})
		put := func(text string) blob.Ref { return must(e.PutBlob(t.Context(), strings.NewReader(text), "")) }
		purge := func(id workflow.RunID) int {
			require.NoError(t, e.Cancel(t.Context(), id, ""))
			outcomeOf(t, e, id)
			require.NoError(t, e.Purge(t.Context(), id))
			<-time.After(time.Hour)
			return must(e.CollectBlobs(t.Context(), time.Minute)).Blobs
		}
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, oneTask)}, map[string]any{"n": put("large")}))
		require.NoError(t, e.Fork(t.Context(), "a", "b", pawl.ForkOptions{}))
		require.Zero(t, purge("a"))
		require.NoError(t, e.Fork(t.Context(), "b", "c", pawl.ForkOptions{Results: []workflow.ForkResult{{Node: "work", Output: put("given")}}}))
		missing := blob.Ref{Hash: "sha256:" + strings.Repeat("0", 64), Size: 1}
		var be *blob.Error
		require.ErrorAs(t, e.Fork(t.Context(), "b", "d", pawl.ForkOptions{Results: []workflow.ForkResult{{Node: "work", Output: missing}}}), &be)
		require.Zero(t, purge("b"), "c has the input, and the result")
		require.Equal(t, 2, purge("c"))
	})
}

// Artifacts that a run had staged are those of its fork as well, unless they were collected
// since it failed.
func TestForkOfStagedArtifacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := true
		e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{
			"a": func(ctx context.Context, task pawl.Task) (any, error) {
				ref, err := task.Put(ctx, strings.NewReader(string(task.Run)), "")
				return pawl.Result{Artifacts: []pawl.Artifact{{Name: "a", Blob: ref}}}, err
			},
			"b": func(context.Context, pawl.Task) (any, error) {
				if fail {
					return nil, pawl.TaskError{Code: "broken"}
				}
				return nil, nil
			},
		}})
		for _, id := range []workflow.RunID{"early", "late"} {
			out, err := e.Run(t.Context(), workflow.Run{ID: id, Definition: define(t, chain)}, nil)
			require.NoError(t, err)
			require.Equal(t, workflow.RunFailed, out.Status)
		}
		fail = false
		rerun := func(id, newID workflow.RunID) error {
			return e.Rerun(t.Context(), pawl.Target{Run: id, Node: "b"}, newID, pawl.ForkOptions{})
		}
		require.NoError(t, rerun("early", "again"))
		require.Len(t, outcomeOf(t, e, "again").Artifacts, 1)
		<-time.After(time.Hour)
		require.Equal(t, 1, must(e.CollectBlobs(t.Context(), time.Minute)).Blobs, "that of late")
		var be *blob.Error
		require.ErrorAs(t, rerun("late", "too late"), &be)
		require.ErrorIs(t, be, blob.ErrMissing)
		r, err := e.OpenArtifact(t.Context(), outcomeOf(t, e, "again").Artifacts[0])
		require.NoError(t, err)
		require.NoError(t, r.Close())
	})
}

// Children of a fork are its own; those of the run that was forked go on.
func TestForkStartsChildrenAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, t.TempDir(), pawl.Options{})
		publish(t, e, define(t, oneTask))
		parent := define(t, `
name: parent
start: sub
nodes: [{id: sub, subworkflow: {name: one}, input: {n: input.n}, output: {output.n: result.n}}]
`)
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: parent}, map[string]any{"n": 3}))
		synctest.Wait()
		require.NoError(t, e.Fork(t.Context(), "a", "b", pawl.ForkOptions{}))
		synctest.Wait()
		require.NoError(t, e.Complete(t.Context(), tasksOut(t, e, "b/1.1")["work0"], 7))
		require.Equal(t, map[string]any{"n": int64(7)}, outcomeOf(t, e, "b").Output)
		require.Equal(t, workflow.RunRunning, mustInspect(t, e, "a/1.1").Status)

		require.NoError(t, e.Fork(t.Context(), "a/1.1", "orphan", pawl.ForkOptions{}))
		require.NoError(t, e.Complete(t.Context(), tasksOut(t, e, "orphan")["work0"], 9))
		require.Equal(t, map[string]any{"n": int64(9)}, outcomeOf(t, e, "orphan").Output, "it has no parent, and tells nobody")
		synctest.Wait()
		require.Equal(t, workflow.RunRunning, mustInspect(t, e, "a").Status)
		require.NoError(t, e.Complete(t.Context(), tasksOut(t, e, "a/1.1")["work0"], 1))
		require.Equal(t, map[string]any{"n": int64(1)}, outcomeOf(t, e, "a").Output)
		var roots []workflow.RunID
		for r, err := range e.Runs(t.Context(), pawl.RunFilter{Roots: true}) {
			require.NoError(t, err)
			roots = append(roots, r.Run)
		}
		require.Equal(t, []workflow.RunID{"a", "b", "orphan"}, roots)
	})
}

// An effects performs tasks, and notes which, by run. In run r a task fails after a minute, when all others are done.
type effects struct {
	mu    sync.Mutex
	done  map[workflow.RunID][]workflow.NodeID
	fails func(pawl.Task) bool
}

func (x *effects) Execute(ctx context.Context, task pawl.Task) (any, error) {
	x.mu.Lock()
	x.done[task.Run] = append(x.done[task.Run], task.Node)
	x.mu.Unlock()
	fails, pause := task.Run == "r" && x.fails(task), time.Second
	if fails {
		pause = time.Minute
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(pause):
	}
	if fails {
		return nil, &workflow.Failure{Code: "down", Permanent: true}
	}
	return map[string]any{"of": string(task.Node)}, nil
}

// of returns the nodes whose tasks were performed for a run, sorted.
func (x *effects) of(run workflow.RunID) []workflow.NodeID {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Sorted(slices.Values(x.done[run]))
}

// A rerunCase is a run that fails at a node, and what is performed when that node is rerun.
type rerunCase struct {
	name, text string
	node       workflow.NodeID
	index      int  // of its branch
	skip       bool // the node is parked, and skipped
	again      []workflow.NodeID
	sent       []workflow.NodeID // named as sent again, without which the rerun is refused
	forked     []workflow.NodeID // sent again by a fork as of the same record
	merged     any
}

// A rerun performs a node again and what follows from it. Tokens that have completed beside it, such as those of
// the other branches of a fan-out, keep their results.
func TestRerunKeepsWhatDoesNotFollow(t *testing.T) {
	for _, c := range []rerunCase{
		{
			name: "a fan-out", node: "pay", index: 2, again: []workflow.NodeID{"done", "pay"}, forked: []workflow.NodeID{"stock", "ship", "pay"},
			text: `
name: order
start: fan
nodes: [{id: fan}, {id: stock, task: t}, {id: ship, task: t}, {id: pay, task: t}, {id: done, task: t, output: {output.all: state.all}}]
transitions:
  - {from: fan, to: stock, siblingGroup: g}
  - {from: fan, to: ship, siblingGroup: g}
  - {from: fan, to: pay, siblingGroup: g}
  - {from: stock, to: done, synchronization: {siblingGroup: g, merge: {source: result.of, target: state.all, strategy: collect}}}
  - {from: ship, to: done, synchronization: {siblingGroup: g, merge: {source: result.of, target: state.all, strategy: collect}}}
  - {from: pay, to: done, synchronization: {siblingGroup: g, merge: {source: result.of, target: state.all, strategy: collect}}}
`, merged: []any{"stock", "ship", "pay"},
		},
		{
			name: "branches of several nodes, nested groups", node: "pay", index: 1, again: []workflow.NodeID{"done", "pay"},
			text: `
name: order
start: fan
nodes: [{id: fan}, {id: pick, task: t}, {id: gate}, {id: pack, task: t}, {id: label, task: t}, {id: pay, task: t}, {id: done, task: t}]
transitions:
  - {from: fan, to: pick, siblingGroup: g}
  - {from: fan, to: pay, siblingGroup: g}
  - {from: pick, to: gate}
  - {from: gate, to: pack, spawnCount: 2, siblingGroup: inner}
  - {from: pack, to: label, synchronization: {siblingGroup: inner}}
  - {from: label, to: done, synchronization: {siblingGroup: g}}
  - {from: pay, to: done, synchronization: {siblingGroup: g}}
`,
		},
		{
			name: "a dag", node: "pay", again: []workflow.NodeID{"done", "pay"},
			text: `
name: order
mode: dag
nodes: [{id: stock, task: t}, {id: ship, task: t, needs: [stock]}, {id: pay, task: t}, {id: done, task: t, needs: [ship, pay]}]
`,
		},
		{
			name: "a loop", node: "pay", again: []workflow.NodeID{"pay"},
			text: `
name: order
start: s
nodes: [{id: s}, {id: turn, task: t}, {id: pay, task: t}]
transitions:
  - {from: s, to: turn}
  - {from: s, to: pay}
  - {from: turn, to: turn, loop: {maxIterations: 3}}
`,
		},
		{
			name: "a foreach, of which one branch fails", node: "load", index: 1, again: []workflow.NodeID{"done", "load"},
			text: `
name: order
start: fan
nodes: [{id: fan}, {id: load, task: t}, {id: done, task: t, output: {output.all: state.all}}]
transitions:
  - {from: fan, to: load, foreach: {collection: "[1, 2, 3]"}, siblingGroup: g}
  - {from: load, to: done, synchronization: {siblingGroup: g, merge: {source: result.of, target: state.all, strategy: collect}}}
`, merged: []any{"load", "load", "load"},
		},
		{
			name: "what is held back until the node is done", node: "load", skip: true, again: []workflow.NodeID{"done", "load", "load"}, sent: []workflow.NodeID{"load"},
			text: `
name: order
start: fan
nodes: [{id: fan}, {id: load, task: t, retry: {maxAttempts: 1, exhausted: park}}, {id: done, task: t}]
transitions:
  - {from: fan, to: load, spawnCount: 2, siblingGroup: g, maxConcurrency: 1}
  - {from: load, to: done, synchronization: {siblingGroup: g}}
`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { checkRerun(t, &c) })
		})
	}
}

// checkRerun has a run fail, or park, at a node, and performs it again from there on.
func checkRerun(t *testing.T, c *rerunCase) {
	x := &effects{done: map[workflow.RunID][]workflow.NodeID{}, fails: func(task pawl.Task) bool {
		return task.Node == c.node && task.Branch.Index == c.index
	}}
	e := open(t, replays.Dir(t), pawl.Options{Executor: x})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, c.text)}, nil))
	<-time.After(time.Hour) // virtual
	target := pawl.Target{Run: "r", Node: c.node}
	for token, err := range e.Tokens(t.Context(), "r", pawl.TokenFilter{Node: c.node}) {
		require.NoError(t, err)
		if token.Failure != nil {
			target.Token = token.ID
		}
	}
	require.NotZero(t, target.Token)
	if c.skip {
		require.NoError(t, e.Skip(t.Context(), target, map[string]any{}))
		<-time.After(time.Hour) // virtual
	}
	o := pawl.ForkOptions{}
	if c.sent != nil {
		var again *pawl.AgainError
		require.ErrorAs(t, e.Rerun(t.Context(), target, "r2", o), &again)
		require.Equal(t, c.sent, again.Nodes)
		require.ErrorIs(t, again, pawl.ErrAgain)
		_, err := e.Simulate(t.Context(), pawl.OfFork{From: target, To: "r2", Options: o})
		require.ErrorIs(t, err, pawl.ErrAgain)
		_, err = e.Summary(t.Context(), "r2")
		require.ErrorIs(t, err, pawl.ErrRunNotFound)
		o.Again = true
	}
	sim, err := e.Simulate(t.Context(), pawl.OfFork{From: target, To: "r2", Options: o})
	require.NoError(t, err)
	require.Equal(t, c.sent, sim.SentAgain())
	require.NoError(t, e.Rerun(t.Context(), target, "r2", o))
	require.NoError(t, e.Rerun(t.Context(), target, "r2", o), "the same again")
	sent, err := e.SentAgain(t.Context(), "r2")
	require.NoError(t, err)
	require.Equal(t, c.sent, sent)
	out, err := e.Wait(t.Context(), "r2")
	require.NoError(t, err)
	require.Equal(t, workflow.RunCompleted, out.Status, "%+v", out.Failure)
	require.Equal(t, c.again, x.of("r2"))
	if c.merged != nil {
		require.Equal(t, c.merged, out.Output["all"])
	}
	// A fork as of the same record does all again, and says so.
	if c.forked != nil {
		summary, err := e.Summary(t.Context(), "r2")
		require.NoError(t, err)
		require.NoError(t, e.Fork(t.Context(), "r", "f", pawl.ForkOptions{At: summary.ForkedFrom.Record}))
		sent, err = e.SentAgain(t.Context(), "f")
		require.NoError(t, err)
		require.Equal(t, c.forked, sent)
	}
	require.NoError(t, e.Close(context.Background()))
}

// A rerun of a rerun keeps what the first one has kept, and does not make its effect again.
func TestRerunOfARerunKeepsResults(t *testing.T) {
	var charged, fails atomic.Int32
	fails.Store(2)
	noted := make(chan struct{}, 3) // as often as it may be called
	e := open(t, replays.Dir(t), pawl.Options{Executor: pawl.Handlers{
		"charge": func(context.Context, pawl.Task) (any, error) {
			charged.Add(1)
			return map[string]any{"receipt": 7}, nil
		},
		"note": func(context.Context, pawl.Task) (any, error) {
			noted <- struct{}{}
			return nil, nil
		},
		"ship": func(_ context.Context, task pawl.Task) (any, error) {
			if task.Run == "r" {
				<-noted // so that charge has completed
			}
			if fails.Add(-1) >= 0 {
				return nil, pawl.TaskError{Code: "no_ship"}
			}
			return nil, nil
		},
	}})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, `
name: order
start: s
nodes: [{id: s}, {id: charge, task: charge, output: {output.receipt: result.receipt}}, {id: note, task: note}, {id: ship, task: ship}, {id: end, join: all}]
transitions:
  - {from: s, to: ship}
  - {from: s, to: charge}
  - {from: ship, to: end}
  - {from: charge, to: note}
  - {from: note, to: end}
`)}, nil))
	for _, id := range []workflow.RunID{"r", "r2"} {
		require.Equal(t, workflow.RunFailed, wait(t, e, id).Status)
		next := map[workflow.RunID]workflow.RunID{"r": "r2", "r2": "r3"}[id]
		require.NoError(t, e.Rerun(t.Context(), pawl.Target{Run: id, Node: "ship"}, next, pawl.ForkOptions{}))
	}
	out := wait(t, e, "r3")
	require.NoError(t, out.Err())
	require.Equal(t, map[string]any{"receipt": int64(7)}, out.Output)
	require.EqualValues(t, 1, charged.Load())
}
