package pawl_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/workflow"
)

const parking = `
name: orders
start: split
nodes:
  - {id: split}
  - {id: charge, task: card, input: {n: item}, retry: {maxAttempts: 2, exhausted: park}}
  - {id: done}
transitions:
  - {from: split, to: charge, foreach: {collection: input.list}, siblingGroup: g}
  - {from: charge, to: done, synchronization: {siblingGroup: g}}
`

// letters returns what DeadLetters lists, in words.
func letters(t *testing.T, e *pawl.Engine, f pawl.DeadLetterFilter) (out []string) {
	t.Helper()
	for l, err := range e.DeadLetters(t.Context(), f) {
		require.NoError(t, err)
		require.Equal(t, "orders", l.Workflow)
		require.Equal(t, 2, l.Attempts)
		require.Equal(t, "card", l.Task)
		require.Equal(t, workflow.NodeID("charge"), l.Node)
		out = append(out, fmt.Sprintf("%s %v %v %s", string(l.Run), l.Token, l.Input, l.Failure.Code))
	}
	return out
}

// Dead letters of all runs are listed with all that an operator needs, also
// after a restart, and can be retried and skipped one by one or by filter.
func TestDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		broken.Store(true)
		dir := t.TempDir()
		options := pawl.Options{Executor: pawl.Handlers{"card": func(_ context.Context, task pawl.Task) (any, error) {
			in := task.Input.(map[string]any)
			if broken.Load() && in["n"] != "good" {
				return nil, pawl.TaskError{Code: fmt.Sprint(in["n"]), Message: "no", Retryable: true}
			}
			return in, nil
		}}}
		e, err := pawl.Open(t.Context(), dir, options)
		require.NoError(t, err)
		begin := time.Now()
		for id, list := range map[workflow.RunID][]string{"a": {"x", "good", "y"}, "b": {"x"}} {
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: define(t, parking)}, map[string]any{"list": list}))
			<-time.After(5 * time.Second) // virtual: until the attempts are used up
		}
		for l, err := range e.DeadLetters(t.Context(), pawl.DeadLetterFilter{Run: "b"}) {
			require.NoError(t, err)
			require.True(t, l.At.After(begin) && l.At.Before(time.Now()), l.At)
		}
		require.NoError(t, e.Close(context.Background()))
		e, err = pawl.Open(t.Context(), dir, options)
		require.NoError(t, err)
		defer func() { require.NoError(t, e.Close(context.Background())) }()

		all := letters(t, e, pawl.DeadLetterFilter{})
		require.ElementsMatch(t, []string{"a t2 map[n:x] x", "a t4 map[n:y] y", "b t2 map[n:x] x"}, all)
		require.Len(t, letters(t, e, pawl.DeadLetterFilter{Code: "x"}), 2)
		require.Len(t, letters(t, e, pawl.DeadLetterFilter{Code: "x", Run: "a"}), 1)
		require.Len(t, letters(t, e, pawl.DeadLetterFilter{Node: "charge", Task: "card", Workflow: "orders"}), 3)
		for _, f := range []pawl.DeadLetterFilter{{Code: "z"}, {Node: "done"}, {Task: "other"}, {Workflow: "other"}, {Run: "c"}} {
			require.Empty(t, letters(t, e, f))
		}

		require.Equal(t, 1, changedLetters(t.Context(), t, e, pawl.DeadLetterFilter{Run: "b"}, pawl.Retry{}), "in vain")
		require.Len(t, letters(t, e, pawl.DeadLetterFilter{}), 2, "it is tried")
		<-time.After(5 * time.Second) // virtual
		var attempts int
		for l, err := range e.DeadLetters(t.Context(), pawl.DeadLetterFilter{Run: "b"}) {
			require.NoError(t, err)
			attempts = l.Attempts
		}
		require.Equal(t, 4, attempts, "and parked again")

		broken.Store(false)
		require.Equal(t, 1, changedLetters(t.Context(), t, e, pawl.DeadLetterFilter{Code: "y"}, pawl.Skip{Output: "skipped"}))
		require.Equal(t, 2, changedLetters(t.Context(), t, e, pawl.DeadLetterFilter{}, pawl.Retry{}))
		for _, id := range []workflow.RunID{"a", "b"} {
			out, err := e.Wait(t.Context(), id)
			require.NoError(t, err)
			require.NoError(t, out.Err())
		}
		require.Empty(t, letters(t, e, pawl.DeadLetterFilter{}))
	})
}

// A run that ends takes its dead letters and approvals off the lists.
func TestListingsEndWithTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"card": func(context.Context, pawl.Task) (any, error) {
			return nil, pawl.TaskError{Code: "no"}
		}}})
		d := define(t, parking)
		d.Nodes = append(d.Nodes, workflow.Node{ID: "gate", Approval: &workflow.ApprovalSpec{Message: "go on?"}})
		d.Transitions = append(d.Transitions, workflow.Transition{From: "split", To: "gate"})
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: d}, map[string]any{"list": []int{1, 2, 3}}))
		synctest.Wait()
		count := func() (dead, open int) {
			for _, err := range e.DeadLetters(t.Context(), pawl.DeadLetterFilter{}) {
				require.NoError(t, err)
				dead++
			}
			for _, err := range e.Approvals(t.Context(), pawl.ApprovalFilter{}) {
				require.NoError(t, err)
				open++
			}
			return dead, open
		}
		dead, open := count()
		require.Equal(t, []int{3, 1}, []int{dead, open})
		require.NoError(t, e.Cancel(t.Context(), "a", "enough"))
		dead, open = count()
		require.Equal(t, []int{0, 0}, []int{dead, open})
	})
}

// Dead letters and approvals are chosen by what is true of their runs.
func TestListingsWhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) {
			return nil, pawl.TaskError{Code: "no"}
		}}})
		d := define(t, `
name: w
start: s
nodes: [{id: s}, {id: a, task: a, retry: {exhausted: park}}, {id: b, approval: {message: ok}}]
transitions: [{from: s, to: a}, {from: s, to: b}]
`)
		for i := range 6 {
			run := workflow.Run{ID: workflow.RunID(fmt.Sprint("r", i)), Definition: d, Labels: map[string]string{"customer": fmt.Sprint(i % 2)}}
			require.NoError(t, e.Start(t.Context(), run, nil))
		}
		synctest.Wait()
		dead := func(f pawl.DeadLetterFilter) (runs []workflow.RunID, failed error) {
			for l, err := range e.DeadLetters(t.Context(), f) {
				if err != nil {
					return runs, err
				}
				runs = append(runs, l.Run)
			}
			return runs, nil
		}
		open := func(f pawl.ApprovalFilter) (runs []workflow.RunID, failed error) {
			for a, err := range e.Approvals(t.Context(), f) {
				if err != nil {
					return runs, err
				}
				runs = append(runs, a.Run)
			}
			return runs, nil
		}
		const odd = `labels.customer == "1" && run != "r3"`
		runs, err := dead(pawl.DeadLetterFilter{Where: odd})
		require.NoError(t, err)
		require.Equal(t, []workflow.RunID{"r1", "r5"}, runs)
		runs, err = open(pawl.ApprovalFilter{Where: odd})
		require.NoError(t, err)
		require.Equal(t, []workflow.RunID{"r1", "r5"}, runs)
		for f, want := range map[pawl.ApprovalFilter]int{{Run: "r2"}: 1, {Workflow: "w"}: 6, {Workflow: "x"}: 0, {Node: "b"}: 6, {Node: "a"}: 0} {
			runs, err = open(f)
			require.NoError(t, err)
			require.Len(t, runs, want, f)
		}
		for _, wrong := range []string{`labels.customer = "1"`, `1 / (seq - seq) == 1`} {
			_, err = dead(pawl.DeadLetterFilter{Where: wrong})
			require.ErrorIs(t, err, pawl.ErrInvalid)
			require.ErrorAs(t, err, new(*pawl.WhereError))
			_, err = open(pawl.ApprovalFilter{Where: wrong})
			require.ErrorAs(t, err, new(*pawl.WhereError))
		}
		other := define(t, `{name: other, start: b, nodes: [{id: b, approval: {message: ok}}]}`)
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: other, Labels: map[string]string{"customer": "x"}}, nil))
		synctest.Wait()
		const number = `int(labels.customer) == 1`
		_, err = open(pawl.ApprovalFilter{Where: number})
		require.ErrorAs(t, err, new(*pawl.WhereError))
		for _, f := range []pawl.ApprovalFilter{{Workflow: "w", Where: number}, {Run: "r1", Where: number}} { // runs that it is not asked of
			runs, err = open(f)
			require.NoError(t, err)
			require.Contains(t, runs, workflow.RunID("r1"))
		}
		require.Equal(t, 2, changedLetters(t.Context(), t, e, pawl.DeadLetterFilter{Where: odd}, pawl.Skip{}))
		runs, err = dead(pawl.DeadLetterFilter{})
		require.NoError(t, err)
		require.Equal(t, []workflow.RunID{"r0", "r2", "r3", "r4"}, runs)
	})
}

// A patch is seen in the lists: of what they say of a parked task and of an
// approval, the new definition holds.
func TestListingsAfterAPatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) {
			return nil, pawl.TaskError{Code: "no"}
		}}})
		d := define(t, `
name: w
start: s
nodes: [{id: s}, {id: a, task: old, retry: {exhausted: park}}, {id: b, approval: {message: old}}]
transitions: [{from: s, to: a}, {from: s, to: b}]
`)
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: d}, nil))
		synctest.Wait()
		_, err := e.Patch(t.Context(), "a", pawl.Patch{Base: 1, Ops: []any{
			op("replace", "/nodes/a/task", "new"), op("replace", "/nodes/b/approval/message", "new"),
		}})
		require.NoError(t, err)
		for a, err := range e.Approvals(t.Context(), pawl.ApprovalFilter{}) {
			require.NoError(t, err)
			require.Equal(t, "new", a.Message)
		}
		require.Equal(t, 1, changedLetters(t.Context(), t, e, pawl.DeadLetterFilter{Task: "new"}, pawl.Retry{}))
	})
}

// A condition selects runs of a list, within its limit, and of a watch; a condition that is
// wrong, or that cannot be evaluated for a run, ends both with an error that says where.
func TestWhere(t *testing.T) {
	ctx := t.Context()
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"t": func(_ context.Context, task pawl.Task) (any, error) {
		if task.Run == "odd-7" {
			return nil, pawl.TaskError{Code: "refused"}
		}
		return nil, nil
	}}})
	next, stop := watching(t, ctx, e, pawl.WatchFilter{Where: `labels.odd == "1" && (code == "refused" || run.endsWith("-5") && status == "completed")`})
	defer stop()
	for i := range 10 {
		run := workflow.Run{ID: workflow.RunID(fmt.Sprint([]string{"even-", "odd-"}[i%2], i)), Definition: define(t, steps), Labels: map[string]string{"odd": fmt.Sprint(i % 2)}}
		_, err := e.Run(ctx, run, nil)
		require.NoError(t, err)
	}
	for _, want := range []workflow.RunID{"odd-5", "odd-7"} {
		c, err := next()
		require.NoError(t, err)
		require.Equal(t, want, c.Run)
	}
	for where, want := range map[string][]workflow.RunID{
		`status == "failed"`:                               {"odd-7"},
		`code == "refused" && labels.odd == "1"`:           {"odd-7"},
		`labels.odd == "1" && status == "completed"`:       {"odd-9", "odd-5", "odd-3"},
		`labels.odd != "1" && seq > 1 && ended >= started`: {"even-8", "even-6", "even-4"},
		`run == "even-2"`:                                  {"even-2"},
		`run in ["even-2", "odd-3", "x"]`:                  {"odd-3", "even-2"},
		`started < timestamp("2000-01-01T00:00:00Z")`:      nil,
	} {
		require.NoError(t, acts.CheckWhere(where))
		require.Equal(t, want, runsWith(t, e, pawl.RunFilter{Where: where, Newest: true, Limit: 3}), where)
	}
	for r, err := range e.Runs(ctx, pawl.RunFilter{Where: `code == "refused"`}) {
		require.NoError(t, err)
		require.NotNil(t, r.Failure, "a condition that reads the code leaves it")
		require.Equal(t, "refused", r.Failure.Code)
	}

	const wrong = `status == "completed" && staus == "failed"`
	errs := []error{acts.CheckWhere(wrong)}
	for _, err := range e.Runs(ctx, pawl.RunFilter{Where: wrong}) {
		errs = append(errs, err)
	}
	for _, err := range e.Watch(ctx, pawl.WatchFilter{Where: wrong}) {
		errs = append(errs, err)
	}
	require.Len(t, errs, 3)
	for _, err := range errs {
		var at *pawl.WhereError
		require.ErrorAs(t, err, &at)
		require.ErrorIs(t, err, pawl.ErrInvalid)
		require.Equal(t, []int{1, 26}, []int{at.Line, at.Column})
		require.ErrorContains(t, err, "did you mean status?")
	}
	require.NoError(t, acts.CheckWhere(""))

	found, failed := 0, error(nil)
	for _, err := range e.Runs(ctx, pawl.RunFilter{Where: `run != "odd-3" || version + "" == ""`}) {
		if err != nil {
			failed = err
		} else {
			found++
		}
	}
	var at *pawl.WhereError
	require.ErrorAs(t, failed, &at)
	require.Equal(t, workflow.RunID("odd-3"), at.Run)
	require.Equal(t, 3, found)

	broken, stopBroken := watching(t, ctx, e, pawl.WatchFilter{Where: `version + run == ""`})
	defer stopBroken()
	_, err := e.Run(ctx, workflow.Run{ID: "late", Definition: define(t, steps)}, nil)
	require.NoError(t, err)
	_, err = broken()
	require.ErrorAs(t, err, &at)
	require.Equal(t, workflow.RunID("late"), at.Run)
}

// A list ends with its context also while it looks at runs and none of them fits.
func TestAListThatFindsNothingEndsWithItsContext(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, chain)}, nil))
	for _, f := range []pawl.RunFilter{{Where: "seq < 0"}, {Until: time.Unix(1, 0)}} {
		ctx, cancel := context.WithCancel(t.Context())
		for range e.Runs(ctx, f) {
			t.Fatal("a run fits")
		}
		cancel()
		for _, err := range e.Runs(ctx, f) {
			require.ErrorIs(t, err, context.Canceled)
			ctx = nil
		}
		require.Nil(t, ctx, "nobody was told")
	}
}

// The revisions of a run are what it began with and what each patch made of it, by whom and why; a fork has
// those of before as well.
func TestRevisions(t *testing.T) {
	ctx := t.Context()
	e, err := pawl.Open(ctx, replays.Dir(t), pawl.Options{Durability: pawl.ProcessCrash})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close(ctx)) }()
	d, err := workflow.ParseYAML([]byte("name: waits\nstart: w\nnodes: [{id: w, wait: {event: go}}]\n"))
	require.NoError(t, err)
	require.NoError(t, e.Start(pawl.As(ctx, "ann"), workflow.Run{ID: "a", Definition: d}, nil))
	ops := []any{map[string]any{"op": "add", "path": "/nodes/w/timeout", "value": "1h"}}
	_, err = e.Patch(pawl.Because(pawl.As(ctx, "bob"), "too slow"), "a", pawl.Patch{Base: 1, Ops: ops})
	require.NoError(t, err)
	require.NoError(t, e.Pause(ctx, "a"))
	_, err = e.Patch(ctx, "a", pawl.Patch{Base: 2, Ops: append(ops, ops...)})
	require.NoError(t, err)
	require.NoError(t, e.Fork(ctx, "a", "b", pawl.ForkOptions{At: 2}))

	list := func(id workflow.RunID, after int) (out []pawl.RunRevision) {
		for r, err := range e.Revisions(ctx, id, after) {
			require.NoError(t, err)
			require.False(t, r.At.IsZero())
			r.At = time.Time{}
			out = append(out, r)
		}
		return out
	}
	all := []pawl.RunRevision{{Revision: 1, Seq: 1, By: "ann"}, {Revision: 2, Seq: 2, By: "bob", Reason: "too slow", Ops: 1}, {Revision: 3, Seq: 4, Ops: 2}}
	require.Equal(t, all, list("a", 0))
	require.Equal(t, all[1:], list("a", 1))
	require.Empty(t, list("a", 3))
	require.Equal(t, all[:2], list("b", 0))
	for range e.Revisions(ctx, "a", 0) {
		break
	}
	for _, err := range e.Revisions(ctx, "nobody", 0) {
		require.ErrorIs(t, err, pawl.ErrRunNotFound)
	}
}

const threeTasks = `{name: three, start: s, nodes: [{id: s}, {id: a, task: a}, {id: b, task: b}, {id: c, task: c}],
	transitions: [{from: s, to: a}, {from: s, to: b}, {from: s, to: c}]}`

// A task that runs, one that queues and one whose result comes later can be told apart, and the
// engine counts them.
func TestWhatTasksAreDoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		wait := func(context.Context, pawl.Task) (any, error) { <-release; return nil, nil }
		e := open(t, t.TempDir(), pawl.Options{Concurrency: 1, Executor: pawl.Handlers{
			"a": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }, "b": wait, "c": wait,
		}})
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, threeTasks)}, nil))
		began := time.Now()
		<-time.After(time.Second)
		snap, err := e.Inspect(t.Context(), "r")
		require.NoError(t, err)
		var executing []workflow.NodeID
		for _, token := range snap.Tokens {
			if token.Executing {
				executing = append(executing, token.Node)
				require.True(t, began.Equal(token.Since))
			}
		}
		require.Equal(t, []workflow.NodeID{"b"}, executing)
		stats, err := e.Stats(t.Context())
		require.NoError(t, err)
		require.Positive(t, stats.Commits)
		stats.Commits = 0
		require.Equal(t, pawl.Stats{Active: 1, Queued: 1, Running: 1, Pending: 1}, stats)
		close(release)
		synctest.Wait()
		stats, err = e.Stats(t.Context())
		require.NoError(t, err)
		stats.Commits = 0
		require.Equal(t, pawl.Stats{Active: 1, Pending: 1}, stats)
		require.NoError(t, e.Close(t.Context()))
	})
}

// A filter with a number that is no status is a mistake, and does not list nothing.
func TestAFilterWithoutSuchAStatus(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	for status := range workflow.RunStatus(100) {
		var found error
		for _, err := range e.Runs(t.Context(), pawl.RunFilter{Status: []workflow.RunStatus{workflow.RunFailed, status}}) {
			found = err
		}
		if status <= workflow.RunCancelled {
			require.NoError(t, found, status)
			continue
		}
		require.ErrorIs(t, found, pawl.ErrInvalid, int(status))
	}
}
