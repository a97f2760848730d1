package diskuse_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/workflow"
)

func define(t *testing.T, text string) *workflow.Definition {
	t.Helper()
	d, err := workflow.ParseYAML([]byte(text))
	require.NoError(t, err)
	return d
}

// TestDiskUse: the groups have all runs, and what Purge of those that have ended would free is what a dry run of it says. A child that has
// ended is kept by its parent that has not.
func TestDiskUse(t *testing.T) {
	dir := t.TempDir()
	hook := &testhook.Hook{}
	hook.OnNow(func() time.Time { return time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC) })
	executor := pawl.Handlers{
		"work":  func(context.Context, pawl.Task) (any, error) { return strings.Repeat("x", 5000), nil },
		"later": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending },
	}
	e, err := pawl.Open(testhook.With(t.Context(), hook), dir, pawl.Options{Executor: executor})
	require.NoError(t, err)
	child := define(t, "name: child\nversion: 1\nstart: a\nnodes: [{id: a, task: work}]\n")
	_, err = e.Publish(t.Context(), child)
	require.NoError(t, err)
	parent := define(t, "name: parent\nstart: a\nnodes: [{id: a, subworkflow: {name: child, version: 1}}, {id: b, task: later}]\ntransitions: [{from: a, to: b}]\n")
	for _, r := range []workflow.Run{{ID: "one", Definition: child, Tenant: "ann"}, {ID: "two", Definition: child}} {
		_, err = e.Run(t.Context(), r, nil)
		require.NoError(t, err)
	}
	for s, err := range e.Watch(t.Context(), pawl.WatchFilter{Prefix: "three/"}) {
		require.NoError(t, err)
		if s.Lost { // it is watched from here on
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "three", Definition: parent}, nil))
		}
		if s.Status == workflow.RunCompleted {
			break
		}
	}
	require.NoError(t, e.Close(t.Context()))

	hook.OnNow(func() time.Time { return time.Date(2026, 10, 20, 0, 0, 0, 0, time.UTC) })
	e, err = pawl.Open(testhook.With(t.Context(), hook), dir, pawl.Options{Maintenance: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close(t.Context())) }()
	uses, err := e.DiskUse(t.Context())
	require.NoError(t, err)
	var groups []history.DiskUse
	free, index := int64(0), int64(0)
	for _, u := range uses {
		switch u.Part {
		case "runs":
			require.Positive(t, u.Bytes, u)
			free += u.Free
			u.Bytes, u.Free = 0, min(u.Free, 1)
			groups = append(groups, u)
		case "index":
			index = u.Bytes
		}
	}
	require.Positive(t, index)
	runs := func(workflow, tenant string, s workflow.RunStatus, n, free int64) history.DiskUse {
		return history.DiskUse{Part: "runs", Workflow: workflow, Tenant: tenant, Status: s, Age: "weeks", Runs: n, Free: free}
	}
	require.Equal(t, []history.DiskUse{
		runs("child", "", workflow.RunCompleted, 2, 1), runs("child", "ann", workflow.RunCompleted, 1, 1), runs("parent", "", workflow.RunRunning, 1, 0),
	}, groups)
	want := int64(0)
	for _, id := range []workflow.RunID{"one", "two"} {
		purged, err := e.DryRunPurge(t.Context(), id)
		require.NoError(t, err)
		want += purged.Bytes
	}
	require.Equal(t, want, free)
}
