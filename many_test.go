package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

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
