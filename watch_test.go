package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/workflow"
)

const steps = `
name: steps
start: a
nodes: [{id: a, task: t}, {id: b, task: t}, {id: c, task: t}]
transitions: [{from: a, to: b}, {from: b, to: c}]
`

// watching returns a watch that has been told to list the runs.
func watching(t testing.TB, ctx context.Context, e *pawl.Engine, f pawl.WatchFilter) (next func() (pawl.RunChange, error), stop func()) {
	t.Helper()
	pull, stop := iter.Pull2(e.Watch(ctx, f))
	next = func() (pawl.RunChange, error) {
		c, err, ok := pull()
		require.True(t, ok)
		return c, err
	}
	c, err := next()
	require.NoError(t, err)
	require.False(t, c.At.IsZero(), "when it was told")
	require.Equal(t, pawl.RunChange{At: c.At, Lost: true}, c)
	return next, stop
}

// summaryOf returns a run as Runs lists it.
func summaryOf(t testing.TB, e *pawl.Engine, id workflow.RunID) pawl.RunSummary {
	t.Helper()
	for r, err := range e.Runs(t.Context(), pawl.RunFilter{Prefix: string(id), Limit: 1}) {
		require.NoError(t, err)
		return r
	}
	require.Fail(t, "no such run", "%s", id)
	return pawl.RunSummary{}
}

func codeOf(f *workflow.Failure) string {
	if f == nil {
		return ""
	}
	return f.Code
}

// A watcher is told of each commit of each run that fits, and of a run what its row in the
// index says.
func TestWatch(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"t": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }}})
	next, stop := watching(t, t.Context(), e, pawl.WatchFilter{Tenant: "me"})
	defer stop()
	ended, stopEnded := watching(t, t.Context(), e, pawl.WatchFilter{Status: []workflow.RunStatus{workflow.RunCancelled}, Prefix: "o"})
	defer stopEnded()
	is := func(status workflow.RunStatus, seq int64, next func() (pawl.RunChange, error)) {
		t.Helper()
		c, err := next()
		require.NoError(t, err)
		s := summaryOf(t, e, c.Run)
		require.Equal(t, pawl.RunChange{
			Run: s.Run, Workflow: s.Workflow, Version: s.Version, Tenant: s.Tenant, Parent: s.Parent,
			Status: s.Status, Seq: s.Seq, At: c.At, StartedAt: s.StartedAt, EndedAt: s.EndedAt, Code: codeOf(s.Failure),
		}, c)
		require.Equal(t, []any{status, seq}, []any{c.Status, c.Seq})
		require.False(t, c.At.Before(c.StartedAt))
	}
	start := func(id workflow.RunID, tenant string) {
		t.Helper()
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: define(t, steps), Tenant: tenant}, nil))
	}
	start("a", "me")
	start("other", "you")
	is(workflow.RunRunning, 1, next)
	require.NoError(t, e.Pause(t.Context(), "a"))
	is(workflow.RunPaused, 2, next)
	require.NoError(t, e.Resume(t.Context(), "a"))
	is(workflow.RunRunning, 3, next)
	for node := range 3 { // nobody looks meanwhile
		snap, err := e.Inspect(t.Context(), "a")
		require.NoError(t, err)
		require.NoError(t, e.Complete(t.Context(), snap.Tokens[node].Key, nil))
	}
	is(workflow.RunCompleted, 6, next)
	require.NoError(t, e.Cancel(t.Context(), "other", "enough"))
	is(workflow.RunCancelled, 2, ended)
}

// A watch ends with its context, which need not be that of a call, and with the engine, once
// the reader has what was there before.
func TestWatchEnds(t *testing.T) {
	e, err := pawl.Open(t.Context(), replays.Dir(t), pawl.Options{Executor: pawl.Handlers{"t": func(context.Context, pawl.Task) (any, error) { return nil, nil }}})
	require.NoError(t, err)
	cause := errors.New("the page was left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancelled, stopCancelled := watching(t, ctx, e, pawl.WatchFilter{})
	defer stopCancelled()
	closed, stopClosed := watching(t, t.Context(), e, pawl.WatchFilter{})
	defer stopClosed()
	cancel(cause)
	_, err = cancelled()
	require.ErrorIs(t, err, cause)
	_, err = e.Run(t.Context(), workflow.Run{ID: "a", Definition: define(t, steps)}, nil)
	require.NoError(t, err)
	require.NoError(t, e.Close(context.Background()))
	c, err := closed()
	require.NoError(t, err)
	require.Equal(t, workflow.RunCompleted, c.Status)
	_, err = closed()
	require.ErrorIs(t, err, pawl.ErrClosed)
}

// BenchmarkWatch runs chains of three tasks with nobody who watches, and with three.
func BenchmarkWatch(b *testing.B) {
	for _, watchers := range []int{0, 3} {
		b.Run(fmt.Sprint(watchers), func(b *testing.B) {
			e := open(b, b.TempDir(), pawl.Options{
				Durability: pawl.ProcessCrash,
				Executor:   pawl.Handlers{"t": func(context.Context, pawl.Task) (any, error) { return nil, nil }},
			})
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			for range watchers {
				next, stop := watching(b, ctx, e, pawl.WatchFilter{})
				go func() {
					defer stop()
					for _, err := next(); err == nil; {
						_, err = next()
					}
				}()
			}
			def, n := define(b, steps), 0
			for b.Loop() {
				n++
				_, err := e.Run(b.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint(n)), Definition: def}, nil)
				require.NoError(b, err)
			}
		})
	}
}

// No more readers watch at once than may, and one that ends makes room for another.
func TestReadersOfWatchAreBounded(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	var stops []func()
	for range 2048 {
		_, stop := watching(t, t.Context(), e, pawl.WatchFilter{})
		stops = append(stops, stop)
	}
	for change, err := range e.Watch(t.Context(), pawl.WatchFilter{}) {
		require.ErrorIs(t, err, pawl.ErrBusy)
		require.ErrorContains(t, err, "2048 readers watch already")
		require.Zero(t, change)
	}
	stops[0]()
	_, stops[0] = watching(t, t.Context(), e, pawl.WatchFilter{})
	for _, stop := range stops {
		stop()
	}
}

func eventsOf(t *testing.T, e *pawl.Engine, id workflow.RunID, typ workflow.EventType) (out []history.Event) {
	t.Helper()
	for ev, err := range e.Events(t.Context(), id, pawl.EventsOptions{}) {
		require.NoError(t, err)
		if ev.Type == typ {
			out = append(out, ev)
		}
	}
	return out
}

// A program that has nothing but the events of a run knows its branches, can deliver results,
// and knows how many tokens a join and an end withdrew.
func TestEventsTellBranches(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }}})
	def := define(t, `{name: quorum, start: split, nodes: [{id: split}, {id: work, task: work}, {id: after, task: after}], transitions: [
		{from: split, to: work, siblingGroup: g, spawnCount: 3},
		{from: work, to: after, synchronization: {siblingGroup: g, strategy: any, remaining: cancel}}]}`)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: def}, nil))
	fanned := eventsOf(t, e, "r", workflow.EventFanOutStarted)[0]
	require.Equal(t, int64(2), fanned.Data["first"])
	dispatched := eventsOf(t, e, "r", workflow.EventTaskDispatched)
	require.Len(t, dispatched, 3)
	for i, ev := range dispatched {
		require.Equal(t, fanned.Group, ev.Group)
		require.Equal(t, int64(i), ev.Data["branch"])
		require.Equal(t, fanned.Data["first"].(int64)+int64(i), int64(ev.Token))
	}
	require.NoError(t, e.Complete(t.Context(), pawl.Key(dispatched[1].Data["key"].(string)), pawl.Result{Metadata: map[string]any{"branch": "mine"}}))
	require.Equal(t, map[string]any{"branch": "mine"}, eventsOf(t, e, "r", workflow.EventTaskCompleted)[0].Data)
	require.Equal(t, int64(2), eventsOf(t, e, "r", workflow.EventFanInCompleted)[0].Data["withdrawn"])
	require.NoError(t, e.Cancel(t.Context(), "r", "enough"))
	require.Equal(t, int64(1), eventsOf(t, e, "r", workflow.EventWorkflowCancelled)[0].Data["withdrawn"])
}

// A time-out says how long it was waited, also when no engine was there to look in time.
func TestTimeoutsTellWhatElapsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		options := pawl.Options{Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }}}
		e := open(t, dir, options)
		def := define(t, `{name: late, start: a, timeout: 1h, nodes: [{id: a, task: work, timeout: 10s, retry: {maxAttempts: 2, initialInterval: 1s}},
			{id: b, task: work, heartbeat: 20s}, {id: c, wait: {event: e}, timeout: 30s}, {id: d, wait: {event: e}}], transitions: [
			{from: a, to: b, outcome: error, errors: [timeout]}, {from: b, to: c, outcome: error, errors: [heartbeat_timeout]}, {from: c, to: d, outcome: error, errors: [timeout]}]}`)
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: def}, nil))
		<-time.After(15 * time.Second) // of the bubble
		require.Equal(t, int64(10_000), eventsOf(t, e, "r", workflow.EventTaskRetrying)[0].Data["elapsedMs"])
		require.NoError(t, e.Close(t.Context()))
		<-time.After(15 * time.Second)
		e = open(t, dir, options)
		out, err := e.Wait(t.Context(), "r")
		require.NoError(t, err)
		require.Equal(t, workflow.RunTimedOut, out.Status)
		var elapsed []any
		for _, ev := range eventsOf(t, e, "r", workflow.EventTokenTimedOut) {
			elapsed = append(elapsed, ev.Data["elapsedMs"])
		}
		require.Equal(t, []any{int64(19_000), int64(20_000), int64(30_000)}, elapsed)
		require.Equal(t, int64(3_600_000), eventsOf(t, e, "r", workflow.EventWorkflowTimedOut)[0].Data["elapsedMs"])
		require.NoError(t, e.Close(t.Context()))
	})
}

func TestBindDecodesTheOutput(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": double}})
	out, err := e.Run(t.Context(), workflow.Run{ID: "a", Definition: define(t, oneTask)}, map[string]int{"n": 21})
	require.NoError(t, err)
	var got struct{ N int }
	require.NoError(t, out.Bind(&got))
	require.Equal(t, 42, got.N)
	var wrong struct{ N string }
	require.ErrorContains(t, out.Bind(&wrong), `bind the output of run "a": json: cannot unmarshal number`)

	out, err = e.Run(t.Context(), workflow.Run{ID: "b", Definition: define(t, oneTask)}, map[string]string{"n": "x"})
	require.NoError(t, err)
	require.Equal(t, out.Err(), out.Bind(&got))
}

// People can read the answer that an HTTP handler of a host writes, and programs can read it back.
func TestViewsAsJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }}})
		def := define(t, `{name: pair, start: a, nodes: [{id: a}, {id: work, task: work, timeout: 1h}, {id: z, approval: {message: ok}}],
			transitions: [{from: a, to: work, siblingGroup: g, spawnCount: 2}, {from: work, to: z, synchronization: {siblingGroup: g}}]}`)
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: def}, nil))
		synctest.Wait()
		snapshot, err := e.Inspect(t.Context(), "r")
		require.NoError(t, err)
		for i := range snapshot.Tokens {
			snapshot.Tokens[i].Key = "" // drawn
		}
		text, err := json.MarshalIndent(snapshot, "", " ")
		require.NoError(t, err)
		golden, err := os.ReadFile("testdata/snapshot.json")
		require.NoError(t, err)
		require.Equal(t, string(golden), string(text)+"\n")

		var back pawl.Snapshot
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, snapshot.Status, back.Status)
		require.Equal(t, snapshot.Tokens, back.Tokens)
		require.Equal(t, snapshot.Groups, back.Groups)
		require.ErrorContains(t, json.Unmarshal([]byte(`{"status":"walking"}`), &back), `unknown run status "walking"`)
	})
}

func TestBindStrict(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
		var in struct{ M int }
		return task.Input, task.BindStrict(&in)
	}}})
	out, err := e.Run(t.Context(), workflow.Run{ID: "a", Definition: define(t, oneTask)}, map[string]int{"n": 21})
	require.NoError(t, err)
	require.True(t, out.Failure.Permanent)
	require.Contains(t, out.Failure.Message, `bind the input of node "work": json: unknown field "n"`)

	done := workflow.Outcome{Run: "b", Status: workflow.RunCompleted, Output: map[string]any{"n": int64(1), "m": int64(2)}}
	var got struct{ N int }
	require.NoError(t, done.Bind(&got))
	require.ErrorContains(t, done.BindStrict(&got), `bind the output of run "b": json: unknown field "m"`)
}

// A further attempt would have the same input.
func TestABindErrorIsNotRetried(t *testing.T) {
	attempts := 0
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": func(ctx context.Context, task pawl.Task) (any, error) {
		attempts++
		return double(ctx, task)
	}}})
	def := define(t, strings.Replace(oneTask, "task: work,", "task: work, retry: {maxAttempts: 3, initialInterval: 1ms},", 1))
	out, err := e.Run(t.Context(), workflow.Run{ID: "b", Definition: def}, map[string]string{"n": "x"})
	require.NoError(t, err)
	require.Contains(t, out.Failure.Message, `bind the input of node "work"`)
	require.True(t, out.Failure.Permanent)
	require.Equal(t, 1, attempts)
}

// logged keeps the records of a log as text.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

func TestTheLogTellsOfTasksWithoutAnExecutor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logged
		e := open(t, t.TempDir(), pawl.Options{Logger: log.logger()})
		for i := range 3 {
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint(i)), Definition: define(t, oneTask)}, map[string]any{"n": 1}))
			synctest.Wait()
		}
		require.Equal(t, `level=WARN msg="pawl: there is no executor: set Options.Executor, or deliver the result with Engine.Complete" run=0 workflow=one node=work token=1 attempt=1 task=work`+"\n", log.text.String())
	})
}

func TestTheLogTellsOfAHandlerThatCloseLeavesBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logged
		deaf := make(chan struct{})
		defer close(deaf)
		e, err := pawl.Open(t.Context(), replays.Dir(t), pawl.Options{Logger: log.logger(), Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) {
			<-deaf
			return nil, nil
		}}})
		require.NoError(t, err)
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, oneTask)}, map[string]any{"n": 1}))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = e.Close(ctx)
		require.EqualError(t, err, `closed, but a handler has not returned, although its context has ended: task "work" at node "work" of run "a"`)
		var left *pawl.LeftBehindError
		require.ErrorAs(t, err, &left)
		require.Len(t, left.Tasks, 1)
		require.Equal(t, pawl.TaskID{Run: "a", Node: "work", Task: "work", Key: left.Tasks[0].Key}, left.Tasks[0])
		require.NotEmpty(t, left.Tasks[0].Key)
		require.Equal(t, err, e.Close(t.Context()), "the same again")
		require.Equal(t, `level=ERROR msg="pawl: Close leaves a handler behind that ignores its context: return when it is done" run=a workflow=one node=work token=1 attempt=1 task=work`+"\n", log.text.String())
	})
}

func TestATargetAtANodeThatDoesNotExist(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, oneTask)}, map[string]any{"n": 1}))
	at := pawl.Target{Run: "a", Node: "wurk"}
	for name, err := range map[string]error{
		"retry": e.Retry(t.Context(), at, pawl.RetryOptions{}), "skip": e.Skip(t.Context(), at, 1), "vote": e.Vote(t.Context(), at, workflow.Ballot{By: "ann"}),
	} {
		require.ErrorIs(t, err, pawl.ErrNotLive, name)
		require.ErrorContains(t, err, `run "a"`, name)
		require.ErrorContains(t, err, `there is no node "wurk"`, name)
	}
}

// A call that finds nothing to act on says where it looked and what is there.
func TestARefusedCallSaysWhatIsThere(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, `
name: two
start: s
nodes: [{id: s}, {id: ask, approval: {message: Go, quorum: 3}}]
transitions: [{from: s, to: ask}, {from: s, to: ask}]
`)}, nil))
	vote := func(at pawl.Target) error { return e.Vote(t.Context(), at, workflow.Ballot{By: "ann", Approved: true}) }
	require.NoError(t, vote(pawl.Target{Run: "a", Token: 2}))
	for want, err := range map[string]error{
		`nothing there waits for this: name a thread or a node`:                                                                         vote(pawl.Target{Run: "a"}),
		`nothing there waits for this: there is no thread 9`:                                                                            vote(pawl.Target{Run: "a", Token: 9}),
		`nothing there waits for this: thread 1 at node "s" is completed, not waiting_for_approval`:                                     vote(pawl.Target{Run: "a", Token: 1}),
		`nothing there waits for this: no thread at node "s" is waiting_for_approval`:                                                   vote(pawl.Target{Run: "a", Node: "s"}),
		`ambiguous: more than one thread fits: there are the threads 2 and 3 at node "ask"; name one`:                                   vote(pawl.Target{Run: "a", Node: "ask"}),
		`already voted: "ann" on thread 2 at node "ask"`:                                                                                e.Vote(t.Context(), pawl.Target{Run: "a", Token: 2}, workflow.Ballot{By: "ann"}),
		`nothing there waits for this: no thread at node "ask" is dispatched or retrying or waiting_for_operator or waiting_for_budget`: e.Skip(t.Context(), pawl.Target{Run: "a", Node: "ask"}, nil),
		`nothing there waits for this: no live thread is at ["s"]`:                                                                      e.CancelNodes(t.Context(), "a", "s"),
		`nothing there waits for this: there is no group "g"`:                                                                           e.CloseGroup(t.Context(), pawl.GroupTarget{Run: "a", Group: "g"}),
	} {
		require.EqualError(t, err, `run "a": `+want, want)
	}
	require.NoError(t, e.Cancel(t.Context(), "a", ""))
	require.EqualError(t, e.Signal(t.Context(), "a", workflow.Signal{Name: "x"}), `run "a": the run has ended`)
}

func TestHTTPStatus(t *testing.T) {
	for status, errs := range map[int][]error{
		200: {nil},
		400: {pawl.ErrInvalid, &workflow.DefinitionError{}, &workflow.InputError{}, &workflow.PatchError{}, &workflow.Failure{}, &workflow.SchemaError{}},
		404: {pawl.ErrRunNotFound, pawl.ErrNotPublished, blob.ErrMissing},
		409: {pawl.ErrRunExists, pawl.ErrPublished, pawl.ErrEnded, pawl.ErrStale, pawl.ErrAlreadyVoted, pawl.ErrRemote, pawl.ErrOtherLog, pawl.ErrForeign},
		413: {fmt.Errorf("%w: %w", pawl.ErrInvalid, &workflow.LimitError{})},
		500: {errors.New("x"), pawl.ErrCorrupt},
		503: {pawl.ErrBusy, pawl.ErrClosed, pawl.ErrUnknown, context.Canceled},
		504: {context.DeadlineExceeded},
		507: {pawl.ErrNoSpace},
	} {
		for _, err := range errs {
			require.Equal(t, status, pawl.HTTPStatus(err), "%v", err)
			if err != nil {
				require.Equal(t, status, pawl.HTTPStatus(fmt.Errorf("what was done: %w", err)), "%v", err)
			}
		}
	}
}

// A watcher that is slow is told that a run was purged also if a run that does not fit has its id by then, whatever the filter can say of it
// beforehand.
func TestWatchTellsOfAPurge(t *testing.T) {
	for _, f := range []pawl.WatchFilter{{}, {Workflow: "one"}, {Where: `workflow == "one"`}, {Where: `workflow == "one" || tenant == "b"`}} {
		e := open(t, t.TempDir(), pawl.Options{})
		run := func(id, name string) {
			_, err := e.Run(t.Context(), workflow.Run{ID: workflow.RunID(id), Definition: define(t, "name: "+name+"\nstart: a\nnodes: [{id: a}]")}, nil)
			require.NoError(t, err)
		}
		run("r", "one")
		next, stop := watching(t, t.Context(), e, f)
		require.NoError(t, e.Purge(t.Context(), "r"))
		run("r", "two")
		run("last", "one")
		c, err := next()
		require.NoError(t, err)
		require.Equal(t, []any{workflow.RunID("r"), "one", true}, []any{c.Run, c.Workflow, c.Purged}, "%+v", f)
		stop()
	}
}

// A watch gives others their turn after each change for which its condition was evaluated, as a list does for each run.
func TestConditionsOfWatchesStepBack(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	next, stop := watching(t, t.Context(), e, pawl.WatchFilter{Where: `seq < 0 || run.endsWith("last")`})
	defer stop()
	def := define(t, "name: a\nstart: a\nnodes: [{id: a}]")
	const runs = 100
	for i := range runs {
		_, err := e.Run(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("r", i)), Definition: def}, nil)
		require.NoError(t, err)
	}
	_, err := e.Run(t.Context(), workflow.Run{ID: "last", Definition: def}, nil)
	require.NoError(t, err)
	var c pawl.RunChange
	turns := harness.CountTurns(func() { c, err = next() })
	require.NoError(t, err)
	require.Equal(t, workflow.RunID("last"), c.Run)
	require.GreaterOrEqual(t, turns, int64(runs*9/10))
}
