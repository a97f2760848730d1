package pawl_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

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
		require.NoError(t, pawl.CheckWhere(where))
		require.Equal(t, want, runsWith(t, e, pawl.RunFilter{Where: where, Newest: true, Limit: 3}), where)
	}
	for r, err := range e.Runs(ctx, pawl.RunFilter{Where: `code == "refused"`}) {
		require.NoError(t, err)
		require.NotNil(t, r.Failure, "a condition that reads the code leaves it")
		require.Equal(t, "refused", r.Failure.Code)
	}

	const wrong = `status == "completed" && staus == "failed"`
	errs := []error{pawl.CheckWhere(wrong)}
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
	require.NoError(t, pawl.CheckWhere(""))

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
