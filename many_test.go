package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

const waiter = `{name: waiter, version: %d, start: a, nodes: [{id: a, wait: {event: e}}]}`

// Calls on many runs change each of them or not, and say which.
func TestCallsOnManyRuns(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	for i := range 3 {
		for _, version := range []int{1, 2} {
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprintf("r%d%d", i, version)), Definition: define(t, fmt.Sprintf(waiter, version))}, nil))
		}
	}
	require.NoError(t, e.Cancel(t.Context(), "r01", ""))
	longer := map[string]any{"op": "add", "path": "/nodes/a/timeout", "value": "1h"}
	report, err := e.PatchAll(t.Context(), pawl.RunFilter{Workflow: "waiter"}, func(d *workflow.Definition) []any {
		if d.Version == 2 {
			return nil
		}
		return []any{longer}
	})
	require.NoError(t, err)
	require.Equal(t, pawl.ManyReport{Changed: 2, Left: 3}, report)
	d, revision, err := e.Definition(t.Context(), "r11")
	require.NoError(t, err)
	require.Equal(t, 2, revision)
	require.Equal(t, "1h0m0s", d.Nodes[0].Timeout.String())

	first, err := e.Revision(t.Context(), "r11", 1)
	require.NoError(t, err)
	require.Zero(t, first.Nodes[0].Timeout)
	second, err := e.Revision(t.Context(), "r11", 2)
	require.NoError(t, err)
	require.Equal(t, d, second)
	_, err = e.Revision(t.Context(), "r11", 3)
	require.ErrorIs(t, err, pawl.ErrInvalid)
	require.ErrorContains(t, err, `run "r11" has no revision 3`)

	report, err = e.PatchAll(t.Context(), pawl.RunFilter{Prefix: "r1"}, func(*workflow.Definition) []any {
		return []any{map[string]any{"op": "remove", "path": "/nodes/a"}}
	})
	require.NoError(t, err)
	require.Equal(t, 2, report.Refused)
	require.Equal(t, workflow.RunID("r11"), report.Errors[0].Run)
	require.Equal(t, report.Errors[0].Err.Error(), report.Errors[0].Why)

	report, err = e.CancelAll(t.Context(), pawl.RunFilter{Prefix: "r2"}, "closed")
	require.NoError(t, err)
	require.Equal(t, pawl.ManyReport{Changed: 2}, report)
	out, err := e.Wait(t.Context(), "r22")
	require.NoError(t, err)
	require.Equal(t, "closed", out.Failure.Message)
	_, err = e.PatchAll(t.Context(), pawl.RunFilter{}, nil)
	require.ErrorIs(t, err, pawl.ErrInvalid)
}

// A limit counts runs that a call can change; others are not looked at. Parents are cancelled
// before their children, which would make them fail.
func TestWhichOfManyRuns(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"*": hold}})
	for i := range 4 {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("r", i)), Definition: define(t, fmt.Sprintf(waiter, 1))}, nil))
	}
	for _, want := range []pawl.ManyReport{{Changed: 3, Cursor: "r2"}, {Changed: 1}, {}} {
		report, err := e.CancelAll(t.Context(), pawl.RunFilter{Limit: 3}, "")
		require.NoError(t, err)
		require.Equal(t, want, report)
	}
	ended := []workflow.RunStatus{workflow.RunCancelled, workflow.RunFailed}
	report, err := e.CancelAll(t.Context(), pawl.RunFilter{Status: ended, Where: `seq > 0`}, "")
	require.NoError(t, err)
	require.Zero(t, report)
	_, err = e.CancelAll(t.Context(), pawl.RunFilter{Status: ended, Where: `seq >`}, "")
	require.ErrorAs(t, err, new(*pawl.WhereError))

	publish(t, e, define(t, callee))
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "parent", Definition: define(t, caller)}, map[string]any{"n": 1}))
	for c, err := range e.Watch(t.Context(), pawl.WatchFilter{Parent: "parent"}) {
		require.NoError(t, err)
		if _, err := e.Summary(t.Context(), "parent/1.1"); err == nil || !c.Lost {
			break
		}
	}
	_, err = e.CancelAll(t.Context(), pawl.RunFilter{Newest: true}, "")
	require.NoError(t, err)
	require.Equal(t, workflow.RunCancelled, outcomeOf(t, e, "parent").Status)
}

// A call that acts on many runs says how far it came when it ends early, and goes on from there; an error that
// concerns one run alone does not end it, and one that concerns all does.
func TestActOnAllGoesOn(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	for i := range 5 {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("r", i)), Definition: define(t, fmt.Sprintf(waiter, 1))}, nil))
	}
	ctx, cancel := context.WithCancel(t.Context())
	own := errors.New("not this one")
	var seen []workflow.RunID
	report, err := e.ActOnAll(ctx, pawl.RunFilter{}, func(r *pawl.RunSummary) (bool, error) {
		seen = append(seen, r.Run)
		switch r.Run {
		case "r1":
			return true, own
		case "r2":
			cancel()
		}
		return false, nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, pawl.ManyReport{Left: 2, Refused: 1, Errors: []pawl.RunRefusal{{Run: "r1", Err: own, Why: "not this one"}}, Cursor: "r2"}, report)
	report, err = e.ActOnAll(t.Context(), pawl.RunFilter{After: report.Cursor}, func(r *pawl.RunSummary) (bool, error) {
		seen = append(seen, r.Run)
		return true, nil
	})
	require.NoError(t, err)
	require.Equal(t, pawl.ManyReport{Changed: 2}, report)
	require.Equal(t, []workflow.RunID{"r0", "r1", "r2", "r3", "r4"}, seen)

	report, err = e.ActOnAll(t.Context(), pawl.RunFilter{}, func(r *pawl.RunSummary) (bool, error) {
		if r.Run == "r1" {
			return false, fmt.Errorf("commit: %w", pawl.ErrNoSpace)
		}
		return true, nil
	})
	require.ErrorIs(t, err, pawl.ErrNoSpace)
	require.ErrorContains(t, err, `run "r1"`)
	require.Equal(t, pawl.ManyReport{Changed: 1, Cursor: "r0"}, report, "r1 is tried again")
	_, err = e.ActOnAll(t.Context(), pawl.RunFilter{}, nil)
	require.ErrorIs(t, err, pawl.ErrInvalid)
}

// A call that ends early is gone on with in the direction that it had, from where it came to, also if that is where
// it began.
func TestActOnAllKeepsItsDirection(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	for i := range 5 {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("r", i)), Definition: define(t, fmt.Sprintf(waiter, 1))}, nil))
	}
	for want, f := range map[string]pawl.RunFilter{
		"[r0 r1 r2 r3 r4]": {Newest: true}, "[r4 r3 r2 r1 r0]": {Newest: true, Limit: 2}, "[r1 r2 r3 r4]": {Newest: true, After: "r0"}, "[r2 r1 r0]": {Newest: true, After: "r3", Limit: 1},
	} {
		var seen []workflow.RunID
		for fails := true; ; fails = !fails {
			calls := 0
			report, err := e.ActOnAll(t.Context(), f, func(r *pawl.RunSummary) (bool, error) {
				if calls++; fails && calls == 2 || calls == 3 {
					return false, pawl.ErrNoSpace
				}
				seen = append(seen, r.Run)
				return true, nil
			})
			if f.After = report.Cursor; f.After == "" {
				require.NoError(t, err)
				break
			}
			report, err = e.ActOnAll(t.Context(), f, func(*pawl.RunSummary) (bool, error) { return false, pawl.ErrNoSpace })
			require.ErrorIs(t, err, pawl.ErrNoSpace)
			require.Equal(t, pawl.ManyReport{Cursor: f.After}, report)
		}
		require.Equal(t, want, fmt.Sprint(seen))
	}
}

// The time of one run is not that of the call.
func TestActOnAllWithATimeForEach(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	for i := range 3 {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("r", i)), Definition: define(t, fmt.Sprintf(waiter, 1))}, nil))
	}
	ctx, cancel := context.WithCancel(t.Context())
	slow := func(r *pawl.RunSummary) (bool, error) {
		if r.Run != "r1" {
			return true, nil
		}
		own, cancel := context.WithTimeout(ctx, 0)
		defer cancel()
		return true, fmt.Errorf("asking somebody: %w", own.Err())
	}
	report, err := e.ActOnAll(ctx, pawl.RunFilter{}, slow)
	require.NoError(t, err)
	require.Equal(t, []int{2, 1}, []int{report.Changed, report.Refused})
	report, err = e.ActOnAll(ctx, pawl.RunFilter{}, func(r *pawl.RunSummary) (bool, error) {
		if r.Run == "r1" {
			cancel()
		}
		return slow(r)
	})
	require.ErrorContains(t, err, `run "r1"`)
	require.Equal(t, pawl.ManyReport{Changed: 1, Cursor: "r0"}, report)
}

// An error of the run behind the last one of a limit is told by the call that goes on from there.
func TestActOnAllUpToAFault(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	for i, n := range []string{"1", "x"} {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("r", i)), Labels: map[string]string{"n": n}, Definition: define(t, fmt.Sprintf(waiter, 1))}, nil))
	}
	f := pawl.RunFilter{Where: "int(labels.n) > 0", Limit: 1}
	report, err := e.CancelAll(t.Context(), f, "")
	require.NoError(t, err)
	require.Equal(t, pawl.ManyReport{Changed: 1, Cursor: "r0"}, report)
	f.After = report.Cursor
	_, err = e.CancelAll(t.Context(), f, "")
	require.ErrorAs(t, err, new(*pawl.WhereError))
}

// Published definitions can be listed and read.
func TestDefinitionsAreListed(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	for i := range 300 { // more than a page
		_, err := e.Publish(t.Context(), define(t, fmt.Sprintf(waiter, i+1)))
		require.NoError(t, err)
	}
	_, err := e.Publish(t.Context(), define(t, oneTask))
	require.NoError(t, err)
	var versions []int
	names := map[string]bool{}
	for d, err := range e.Definitions(t.Context(), pawl.DefinitionFilter{}) {
		require.NoError(t, err)
		names[d.Name] = true
		if d.Name == "waiter" {
			versions = append(versions, d.Version)
			require.NotEmpty(t, d.Hash)
		}
	}
	require.Len(t, names, 2)
	require.Len(t, versions, 300)
	for name, want := range map[string]int{"waiter": 300, "one": 1, "on": 0, "x": 0} {
		n := 0
		for d, err := range e.Definitions(t.Context(), pawl.DefinitionFilter{Workflow: name}) {
			require.NoError(t, err)
			require.Equal(t, name, d.Name)
			n++
		}
		require.Equal(t, want, n)
	}
	require.Equal(t, 300, versions[299])
	d, err := e.Published(t.Context(), "waiter", 0)
	require.NoError(t, err)
	require.Equal(t, 300, d.Version)
	_, err = e.Published(t.Context(), "waiter", 301)
	require.ErrorIs(t, err, pawl.ErrNotPublished)
}

// The cost of a failed attempt is told with its failure.
func TestMetadataOfFailedAttempts(t *testing.T) {
	cost := map[string]any{"tokens_used": int64(7)}
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
		require.Equal(t, task.Run, task.Root)
		switch task.Attempt {
		case 1:
			return pawl.Result{Metadata: cost}, errors.New("beside a result")
		case 2:
			return nil, pawl.WithMetadata(pawl.TaskError{Code: "busy", Retryable: true}, cost)
		default:
			return nil, pawl.WithMetadata(pawl.Permanent(errors.New("with what is no value")), map[string]any{"f": func() {}})
		}
	}}})
	def := define(t, `{name: f, start: a, nodes: [{id: a, task: work, retry: {maxAttempts: 3, initialInterval: 1ms}}]}`)
	out, err := e.Run(t.Context(), workflow.Run{ID: "r", Definition: def}, nil)
	require.NoError(t, err)
	require.Equal(t, "with what is no value", out.Failure.Message)
	retrying := eventsOf(t, e, "r", workflow.EventTaskRetrying)
	require.Len(t, retrying, 2)
	for _, ev := range retrying {
		require.Equal(t, cost, ev.Data["metadata"])
	}
	failed := eventsOf(t, e, "r", workflow.EventTaskFailed)[0].Data["metadata"].(map[string]any)
	require.Contains(t, failed, "invalid_metadata")
	require.Nil(t, pawl.ErrorMetadata(errors.New("none")))
	require.NoError(t, pawl.WithMetadata(nil, cost))

	e = open(t, t.TempDir(), pawl.Options{})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "later", Definition: define(t, `{name: f, start: a, nodes: [{id: a, task: work, retry: {maxAttempts: 1, exhausted: park}}]}`)}, nil))
	key := eventsOf(t, e, "later", workflow.EventTaskDispatched)[0].Data["key"].(string)
	require.NoError(t, e.Fail(t.Context(), pawl.Key(key), pawl.WithMetadata(errors.New("no"), cost)))
	require.Equal(t, cost, eventsOf(t, e, "later", workflow.EventTaskParked)[0].Data["metadata"])
}

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

// The story of docs/act.md: a dead letter is found, its cause patched, and the
// retry calls the mended address.
func TestDeadLetterFromCauseToCure(t *testing.T) {
	ctx := t.Context()
	fetch := func(_ context.Context, t pawl.Task) (any, error) {
		url := t.Input.(map[string]any)["url"]
		if url != "https://new.example/7" {
			return nil, pawl.TaskError{Code: "http_404", Message: "not found"}
		}
		return map[string]any{"sum": 10}, nil
	}
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"http": fetch}})
	d := workflow.Definition{
		Name: "invoice", Start: "fetch", Nodes: []workflow.Node{{
			ID: "fetch", Task: "http", Input: map[string]string{"url": "'https://old.example/' + input.id"},
			Retry: &workflow.RetrySpec{Exhausted: workflow.ExhaustedPark}, Output: map[string]string{"output.sum": "result.sum"},
		}},
	}
	require.NoError(t, e.Start(ctx, workflow.Run{ID: "invoice-7", Definition: &d}, map[string]any{"id": "7"}))
	awaitEvent(t, e, "invoice-7", workflow.EventTaskParked)

	n := 0
	for l, err := range e.DeadLetters(ctx, pawl.DeadLetterFilter{Code: "http_404"}) {
		require.NoError(t, err)
		assert.Equal(t, map[string]any{"url": "https://old.example/7"}, l.Input)
		n++
	}
	require.Equal(t, 1, n)
	patchURL(t, e, "input.address")
	at := pawl.Target{Run: "invoice-7", Node: "fetch"}
	var failure *workflow.Failure
	require.ErrorAs(t, e.Retry(ctx, at, pawl.RetryOptions{}), &failure)
	assert.Equal(t, workflow.CodeExpression, failure.Code)
	assert.Equal(t, workflow.NodeID("fetch"), failure.Node)
	require.ErrorIs(t, e.Retry(ctx, at, pawl.RetryOptions{Input: "anew"}), pawl.ErrInvalid)

	patchURL(t, e, "'https://new.example/' + input.id")
	require.NoError(t, e.Retry(ctx, at, pawl.RetryOptions{}))
	out, err := e.Wait(ctx, "invoice-7")
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"sum": int64(10)}, out.Output)
	renewed := awaitEvent(t, e, "invoice-7", workflow.EventTaskInputRenewed)
	assert.Equal(t, map[string]any{"revision": int64(3), "asked": false}, renewed.Data)
}

// One dead letter whose input cannot be evaluated keeps RetryAll from no other.
func TestRetryAllGoesOnAfterARefusal(t *testing.T) {
	ctx := t.Context()
	calls := map[workflow.RunID]int{}
	work := func(_ context.Context, t pawl.Task) (any, error) {
		if calls[t.Run]++; calls[t.Run] == 1 {
			return nil, errors.New("at first")
		}
		return nil, nil
	}
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"http": work}, Concurrency: 1})
	d := workflow.Definition{Name: "two", Start: "fetch", Nodes: []workflow.Node{{
		ID: "fetch", Task: "http", Input: map[string]string{"url": "'u'"}, Retry: &workflow.RetrySpec{Exhausted: workflow.ExhaustedPark},
	}}}
	for _, id := range []workflow.RunID{"invoice-7", "other"} {
		require.NoError(t, e.Start(ctx, workflow.Run{ID: id, Definition: &d}, nil))
		awaitEvent(t, e, id, workflow.EventTaskParked)
	}
	patchURL(t, e, "input.address")
	n, err := e.RetryAll(ctx, pawl.DeadLetterFilter{}, pawl.RetryOptions{})
	var failure *workflow.Failure
	require.ErrorAs(t, err, &failure)
	require.ErrorContains(t, err, "invoice-7")
	assert.Equal(t, 1, n)
	_, err = e.Wait(ctx, "other")
	require.NoError(t, err)
	n, err = e.RetryAll(ctx, pawl.DeadLetterFilter{}, pawl.RetryOptions{Input: workflow.InputKept})
	require.NoError(t, err)
	assert.Equal(t, 1, n)
}

// patchURL replaces the expression of the url at the node fetch of the run invoice-7.
func patchURL(t *testing.T, e *pawl.Engine, expression string) {
	t.Helper()
	_, revision, err := e.Definition(t.Context(), "invoice-7")
	require.NoError(t, err)
	_, err = e.Patch(t.Context(), "invoice-7", pawl.Patch{Base: revision, Ops: []any{
		map[string]any{"op": "replace", "path": "/nodes/fetch/input/url", "value": expression},
	}})
	require.NoError(t, err)
}

// awaitEvent returns the first event of a type, when it has come.
func awaitEvent(t *testing.T, e *pawl.Engine, run workflow.RunID, typ workflow.EventType) pawl.Event {
	t.Helper()
	for ev, err := range e.Events(t.Context(), run, pawl.EventsOptions{Follow: true}) {
		require.NoError(t, err)
		if ev.Type == typ {
			return ev
		}
	}
	t.Fatalf("the run %q has ended without %s", run, typ)
	return pawl.Event{}
}

const unmet = `
name: unmet
start: begin
nodes:
  - {id: begin}
  - {id: a, task: t}
  - {id: both, task: t, join: all}
  - {id: b, task: t}
  - {id: away}
  - {id: other, wait: {event: done}}
transitions:
  - {from: begin, to: a}
  - {from: begin, to: b}
  - {from: begin, to: other}
  - {from: a, to: both}
  - {from: b, to: both, condition: input.meets}
  - {from: b, to: away, priority: 1}
`

// A run that goes on, and whose join can no longer be met, has an incident wherever runs are listed, until it ends;
// also after the directory was opened again.
func TestAnUnmetJoinIsAnIncident(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	options := pawl.Options{Executor: pawl.Handlers{"t": func(context.Context, pawl.Task) (any, error) { return nil, nil }}}
	e := open(t, dir, options)
	next, stop := watching(t, ctx, e, pawl.WatchFilter{Where: `code == "join_unmet"`})
	defer stop()
	for id, meets := range map[workflow.RunID]bool{"stuck": false, "fine": true} {
		require.NoError(t, e.Start(ctx, workflow.Run{ID: id, Definition: define(t, unmet)}, map[string]any{"meets": meets}))
	}
	c, err := next()
	require.NoError(t, err)
	require.Equal(t, workflow.RunID("stuck"), c.Run)
	require.Equal(t, workflow.RunRunning, c.Status)
	filter := pawl.IncidentFilter(pawl.RunFilter{Where: `workflow == "unmet" // of ours`})
	for range 2 {
		require.Equal(t, []workflow.RunID{"stuck"}, runsWith(t, e, filter))
		s, err := e.Summary(ctx, "stuck")
		require.NoError(t, err)
		require.Equal(t, "both", string(s.Failure.Node))
		require.Equal(t, workflow.CodeJoinUnmet, s.Failure.Code)
		o, err := e.Overview(ctx, "stuck")
		require.NoError(t, err)
		require.Equal(t, s.Failure, o.Failure)
		require.NoError(t, e.Close(ctx))
		e = open(t, dir, options)
	}
	require.NoError(t, e.Cancel(ctx, "stuck", "no use"))
	require.Empty(t, runsWith(t, e, filter))
}

// A text that is no condition does not become one between the parentheses of another.
func TestAnIncidentFilterJoinsConditionsAndNotTexts(t *testing.T) {
	for _, where := range []string{`true) || (true`, `workflow == "a") || (1 == 1`, `(`} {
		f := pawl.IncidentFilter(pawl.RunFilter{Where: where})
		require.ErrorAs(t, pawl.CheckWhere(f.Where), new(*pawl.WhereError), where)
	}
}
