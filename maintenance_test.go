package pawl_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// The runs of TestMaintenance wait for time, a task, an operator, a signal and a child.
var maintained = map[workflow.RunID]string{
	"timer":    "name: timer\nstart: nap\nnodes: [{id: nap, wait: {for: 1h}}, {id: b, task: hold}]\ntransitions: [{from: nap, to: b}]\n",
	"task":     "name: task\nstart: a\nnodes: [{id: a, task: hold}]\n",
	"parked":   "name: parked\nstart: a\nnodes: [{id: a, task: fail, retry: {maxAttempts: 1, exhausted: park}}]\n",
	"signal":   "name: signal\nstart: w\nnodes: [{id: w, wait: {event: go}, timeout: 1h}, {id: b, task: after}]\ntransitions: [{from: w, to: b}]\n",
	"parent":   "name: family\nstart: s\nnodes: [{id: s, subworkflow: {name: child}}]\n",
	"finished": "name: finished\nstart: a\nnodes: [{id: a}]\n",
}

func startMaintained(t *testing.T, dir string) {
	e, err := pawl.Open(t.Context(), dir, pawl.Options{Executor: pawl.Handlers{
		"hold": hold, "keep": hold,
		"fail": func(context.Context, pawl.Task) (any, error) {
			return nil, pawl.TaskError{Code: "no", Message: "not yet"}
		},
	}})
	require.NoError(t, err)
	publish(t, e, define(t, "name: child\nstart: c\nnodes: [{id: c, task: keep}]\n"))
	for id, text := range maintained {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: define(t, text)}, nil))
	}
	synctest.Wait()
	require.NoError(t, e.Close(context.Background()))
}

func inspectAll(t *testing.T, e *pawl.Engine) map[workflow.RunID]pawl.Snapshot {
	out := map[workflow.RunID]pawl.Snapshot{}
	for r, err := range e.Runs(t.Context(), pawl.RunFilter{}) {
		require.NoError(t, err)
		out[r.Run] = mustInspect(t, e, r.Run)
	}
	return out
}

// With Options.Maintenance no time, task or child changes a run, whatever is done to others. An act is
// committed, and its consequences happen at the next Open, with all that waited.
func TestMaintenance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		startMaintained(t, dir)
		<-time.After(2 * time.Hour)

		var performed []string
		note := func(_ context.Context, task pawl.Task) (any, error) {
			performed = append(performed, string(task.Run))
			return "done", nil
		}
		e, err := pawl.Open(t.Context(), dir, pawl.Options{Maintenance: true, StallAfter: time.Minute, Executor: pawl.Handlers{"*": note}})
		require.NoError(t, err)
		before := inspectAll(t, e)
		require.Len(t, before, len(maintained)+1, "with the child")
		<-time.After(2 * time.Hour)
		require.Equal(t, before, inspectAll(t, e))

		require.NoError(t, e.Pause(t.Context(), "timer")) // its actor is up, and its time over
		require.NoError(t, e.Resume(t.Context(), "timer"))
		require.NoError(t, e.Signal(t.Context(), "signal", workflow.Signal{Name: "go"})) // which has timed out, and nobody has said so
		require.NoError(t, e.Retry(t.Context(), pawl.Target{Run: "parked", Node: "a"}, pawl.RetryOptions{}))
		require.NoError(t, e.Cancel(t.Context(), "parent", "enough"))
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "new", Definition: define(t, maintained["task"])}, nil))
		<-time.After(2 * time.Hour)
		after := inspectAll(t, e)
		require.Equal(t, before["task"], after["task"])
		require.Equal(t, before["timer"].Tokens, after["timer"].Tokens)
		child := onlyChild(t, after)
		require.Equal(t, before[child], after[child])
		require.Empty(t, performed)

		_, err = e.Wait(t.Context(), "task")
		require.ErrorIs(t, err, pawl.ErrMaintenance)
		_, err = e.Run(t.Context(), workflow.Run{ID: "never", Definition: define(t, maintained["task"])}, nil)
		require.ErrorIs(t, err, pawl.ErrMaintenance)
		_, err = e.Summary(t.Context(), "never")
		require.ErrorIs(t, err, pawl.ErrRunNotFound)
		require.Equal(t, workflow.RunCompleted, outcomeOf(t, e, "finished").Status)
		require.NoError(t, e.Purge(t.Context(), "finished"))
		require.NoError(t, e.Close(context.Background()))

		expectAfterMaintenance(t, dir, child)
	})
}

func onlyChild(t *testing.T, all map[workflow.RunID]pawl.Snapshot) workflow.RunID {
	for id, s := range all {
		if s.Workflow == "child" {
			return id
		}
	}
	t.Fatal("there is no child")
	return ""
}

// expectAfterMaintenance opens the directory to go on, and expects that nothing was lost.
func expectAfterMaintenance(t *testing.T, dir string, child workflow.RunID) {
	attempts := make(chan string, 100)
	e := open(t, dir, pawl.Options{Executor: pawl.Handlers{"keep": hold, "*": func(_ context.Context, task pawl.Task) (any, error) {
		attempts <- string(task.Run)
		return "done", nil
	}}})
	for _, id := range []workflow.RunID{"timer", "task", "signal", "parked", "new"} {
		require.Equal(t, workflow.RunCompleted, outcomeOf(t, e, id).Status, id)
	}
	require.Equal(t, workflow.RunCancelled, outcomeOf(t, e, "parent").Status)
	require.Equal(t, workflow.RunCancelled, outcomeOf(t, e, child).Status)
	close(attempts)
	count := map[string]int{}
	for run := range attempts {
		count[run]++
	}
	for _, id := range []string{"timer", "task", "signal", "parked", "new"} {
		require.Equal(t, 1, count[id], id)
	}
	_, err := e.Summary(t.Context(), "finished")
	require.ErrorIs(t, err, pawl.ErrRunNotFound)
}
