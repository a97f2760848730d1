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

		n, err := e.RetryAll(t.Context(), pawl.DeadLetterFilter{Run: "b"}, pawl.RetryOptions{}) // in vain
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Len(t, letters(t, e, pawl.DeadLetterFilter{}), 2, "it is tried")
		<-time.After(5 * time.Second) // virtual
		var attempts int
		for l, err := range e.DeadLetters(t.Context(), pawl.DeadLetterFilter{Run: "b"}) {
			require.NoError(t, err)
			attempts = l.Attempts
		}
		require.Equal(t, 4, attempts, "and parked again")

		broken.Store(false)
		n, err = e.SkipAll(t.Context(), pawl.DeadLetterFilter{Code: "y"}, "skipped")
		require.NoError(t, err)
		require.Equal(t, 1, n)
		n, err = e.RetryAll(t.Context(), pawl.DeadLetterFilter{}, pawl.RetryOptions{})
		require.NoError(t, err)
		require.Equal(t, 2, n)
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
		n, err := e.SkipAll(t.Context(), pawl.DeadLetterFilter{Where: odd}, nil)
		require.NoError(t, err)
		require.Equal(t, 2, n)
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
		n, err := e.RetryAll(t.Context(), pawl.DeadLetterFilter{Task: "new"}, pawl.RetryOptions{})
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})
}
