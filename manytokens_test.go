package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// parkFive starts a run whose fan-out parks five tasks, and returns the engine when all are parked.
func parkFive(t *testing.T) *pawl.Engine {
	t.Helper()
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"load": func(context.Context, pawl.Task) (any, error) {
		return nil, pawl.TaskError{Code: "bad_line", Message: "no"}
	}}})
	d := define(t, `{name: import, start: split, nodes: [{id: split}, {id: load, task: load, retry: {maxAttempts: 1, exhausted: park}}, {id: done}],
		transitions: [{from: split, to: load, foreach: {collection: input.lines}, siblingGroup: g}, {from: load, to: done, synchronization: {siblingGroup: g}}]}`)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "import-1", Definition: d}, map[string]any{"lines": []int{0, 1, 2, 3, 4}}))
	parked := 0
	for ev, err := range e.Events(t.Context(), "import-1", pawl.EventsOptions{Follow: true}) {
		require.NoError(t, err)
		if ev.Type == workflow.EventTaskParked {
			parked++
		}
		if parked == 5 {
			break
		}
	}
	return e
}

// tokensParked returns the tokens of dead letters that fit a filter.
func tokensParked(t *testing.T, e *pawl.Engine, f pawl.DeadLetterFilter) (out []workflow.TokenID) {
	t.Helper()
	for l, err := range e.DeadLetters(t.Context(), f) {
		require.NoError(t, err)
		out = append(out, l.Token)
	}
	return out
}

// Dead letters are acted on in steps that go on where the last one stopped, though what was acted on has left the list; one that refuses is
// named with its token, and keeps no other from being acted on.
func TestActOnDeadLettersInSteps(t *testing.T) {
	e := parkFive(t)
	f := pawl.DeadLetterFilter{Run: "import-1", Limit: 2}
	refused := errors.New("not this one")
	var seen []workflow.TokenID
	act := func(l *pawl.DeadLetter) (bool, error) {
		if seen = append(seen, l.Token); len(seen) == 2 {
			return false, refused
		}
		return true, e.Skip(pawl.As(t.Context(), "ann"), pawl.Target{Run: l.Run, Token: l.Token}, "skipped")
	}
	steps := 0
	for more := true; more; steps++ {
		r, err := e.ActOnDeadLetters(t.Context(), f, act)
		require.NoError(t, err)
		if steps == 0 {
			require.Equal(t, pawl.TokensReport{Changed: 1, Refused: 1, Cursor: pawl.Target{Run: "import-1", Token: seen[1]}, Errors: []pawl.TokenRefusal{
				{Run: "import-1", Token: seen[1], Err: refused, Why: "not this one"},
			}}, r)
		}
		more, f.After, f.AfterToken = r.Cursor.Run != "", r.Cursor.Run, r.Cursor.Token
	}
	require.Equal(t, 3, steps)
	require.Len(t, seen, 5)
	require.IsIncreasing(t, seen)
	require.Len(t, tokensParked(t, e, pawl.DeadLetterFilter{}), 1)

	// A letter that somebody else has answered meanwhile is reported as left.
	r, err := e.ActOnDeadLetters(t.Context(), pawl.DeadLetterFilter{}, func(l *pawl.DeadLetter) (bool, error) {
		at := pawl.Target{Run: l.Run, Token: l.Token}
		require.NoError(t, e.Skip(t.Context(), at, nil))
		return true, e.Skip(t.Context(), at, nil)
	})
	require.NoError(t, err)
	require.Equal(t, pawl.TokensReport{Left: 1}, r)
	_, err = e.Wait(t.Context(), "import-1")
	require.NoError(t, err)
	_, err = e.ActOnDeadLetters(t.Context(), pawl.DeadLetterFilter{After: "nobody"}, act)
	require.ErrorIs(t, err, pawl.ErrRunNotFound)
	_, err = e.ActOnDeadLetters(t.Context(), pawl.DeadLetterFilter{}, nil)
	require.ErrorIs(t, err, pawl.ErrInvalid)
}

// Pages of both lists begin behind a token of a run, and hold as many as are asked for.
func TestPagesOfWhatWaits(t *testing.T) {
	e := parkFive(t)
	all := tokensParked(t, e, pawl.DeadLetterFilter{})
	require.Len(t, all, 5)
	require.Equal(t, all[2:4], tokensParked(t, e, pawl.DeadLetterFilter{After: "import-1", AfterToken: all[1], Limit: 2}))

	asks := define(t, `{name: asks, start: a, nodes: [{id: a, approval: {message: "'go?'"}}]}`)
	for i := range 3 {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("asks-", i)), Definition: asks}, nil))
	}
	approvals := func(f pawl.ApprovalFilter) (runs []workflow.RunID) {
		for a, err := range e.Approvals(t.Context(), f) {
			require.NoError(t, err)
			runs = append(runs, a.Run)
		}
		return runs
	}
	require.Equal(t, []workflow.RunID{"asks-0", "asks-1"}, approvals(pawl.ApprovalFilter{Limit: 2}))
	require.Equal(t, []workflow.RunID{"asks-1", "asks-2"}, approvals(pawl.ApprovalFilter{After: "asks-0", AfterToken: 1}), "whether or not it still waits")

	r, err := e.ActOnApprovals(t.Context(), pawl.ApprovalFilter{Workflow: "asks", Limit: 2}, func(a *pawl.Approval) (bool, error) {
		return true, e.Vote(t.Context(), pawl.Target{Run: a.Run, Token: a.Token}, workflow.Ballot{By: "ann", Approved: true})
	})
	require.NoError(t, err)
	require.Equal(t, 2, r.Changed)
	require.Equal(t, workflow.RunID("asks-1"), r.Cursor.Run)
	require.Equal(t, []workflow.RunID{"asks-2"}, approvals(pawl.ApprovalFilter{After: r.Cursor.Run, AfterToken: r.Cursor.Token}))
}

// Acts on all dead letters leave alone what somebody has retried since they were listed, and whose attempt would be lost.
func TestActsOnAllLeaveWhatWasRetried(t *testing.T) {
	for name, act := range map[string]func(*pawl.Engine, pawl.Target) error{
		"skip":  func(e *pawl.Engine, at pawl.Target) error { return e.Skip(t.Context(), at, "skipped") },
		"retry": func(e *pawl.Engine, at pawl.Target) error { return e.Retry(t.Context(), at, pawl.RetryOptions{}) },
	} {
		t.Run(name, func(t *testing.T) {
			again, keys := atomic.Bool{}, make(chan pawl.Key, 2)
			e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
				if !again.Load() {
					return nil, pawl.TaskError{Code: "no", Message: "not now"}
				}
				keys <- task.Key
				return nil, pawl.ErrPending
			}}})
			def := define(t, "name: d\nstart: a\nnodes: [{id: a, task: work, retry: {maxAttempts: 1, exhausted: park}}]\n")
			for _, id := range []workflow.RunID{"one", "two"} {
				require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: def}, nil))
				for ev, err := range e.Events(t.Context(), id, pawl.EventsOptions{Follow: true}) {
					require.NoError(t, err)
					if ev.Type == workflow.EventTaskParked {
						break
					}
				}
			}
			again.Store(true)
			var key pawl.Key
			r, err := e.ActOnDeadLetters(t.Context(), pawl.DeadLetterFilter{}, func(l *pawl.DeadLetter) (bool, error) {
				if l.Run == "one" { // somebody retries the other one meanwhile
					require.NoError(t, e.Retry(t.Context(), pawl.Target{Run: "two", Token: l.Token}, pawl.RetryOptions{}))
					key = <-keys
				}
				return true, act(e, pawl.Target{Run: l.Run, Token: l.Token, Parked: true})
			})
			require.NoError(t, err)
			require.Equal(t, pawl.TokensReport{Changed: 1, Left: 1}, r)
			require.NoError(t, e.Complete(t.Context(), key, "done"))
			out, err := e.Wait(t.Context(), "two")
			require.NoError(t, err)
			require.Equal(t, workflow.RunCompleted, out.Status)
		})
	}
}

// A report is written as JSON with the names of its list and without what it has not.
func TestATokensReportAsJSON(t *testing.T) {
	for want, report := range map[string]pawl.TokensReport{
		`{"changed":0,"left":0,"refused":0}`:                                            {},
		`{"changed":0,"left":0,"refused":0,"cursor":{"run":"import-1","token":2}}`:      {Cursor: pawl.Target{Run: "import-1", Token: 2}},
		`{"changed":0,"left":0,"refused":0,"cursor":{"run":"import-1","node":"fetch"}}`: {Cursor: pawl.Target{Run: "import-1", Node: "fetch"}},
	} {
		text, err := json.Marshal(report)
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
}
