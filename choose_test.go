package pawl_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// A task type that an expression has chosen is that of every attempt, also of one that is
// sent by another engine; a dead letter, Inspect and Why name it.
func TestAChosenTaskTypeStays(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	const source = `
name: agent
start: act
nodes:
  - {id: act, taskExpr: input.tool, tasks: [search, count], retry: {exhausted: park}, output: {output.by: result}}
`
	broken := func(context.Context, pawl.Task) (any, error) { return nil, errors.New("broken") }
	e := open(t, dir, pawl.Options{Executor: pawl.Handlers{"search": broken, "count": named("count")}})
	require.NoError(t, e.Start(ctx, workflow.Run{ID: "a", Definition: define(t, source)}, map[string]any{"tool": "search"}))
	awaitEvent(t, e, "a", workflow.EventTaskParked)

	letters := 0
	for l, err := range e.DeadLetters(ctx, pawl.DeadLetterFilter{Task: "search"}) {
		require.NoError(t, err)
		assert.Equal(t, "search", l.Task)
		letters++
	}
	assert.Equal(t, 1, letters)
	snapshot, err := e.Inspect(ctx, "a")
	require.NoError(t, err)
	assert.Equal(t, "search", snapshot.Tokens[0].Chosen)
	why, err := e.Why(ctx, "a")
	require.NoError(t, err)
	require.Len(t, why.Waits, 1)
	assert.Contains(t, why.Waits[0].For, "of task search")
	require.NoError(t, e.Close(ctx))

	e = open(t, dir, pawl.Options{Executor: pawl.Handlers{"search": named("search"), "count": named("count")}})
	require.NoError(t, e.Retry(ctx, pawl.Target{Run: "a", Node: "act"}, pawl.RetryOptions{}))
	out, err := e.Wait(ctx, "a")
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"by": "search"}, out.Output)
}

// All that an expression may choose has to be published before the run starts.
func TestChoicesArePublished(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"a": named("a")}})
	_, err := e.Publish(t.Context(), define(t, "name: finder\nstart: x\nnodes: [{id: x, task: a}]\n"))
	require.NoError(t, err)
	boss := define(t, "name: boss\nstart: ask\nnodes: [{id: ask, subworkflow: {nameExpr: input.agent, names: [finder, writer]}}]\n")
	err = e.Start(t.Context(), workflow.Run{ID: "boss", Definition: boss}, map[string]any{"agent": "finder"})
	require.ErrorIs(t, err, pawl.ErrNotPublished)
	_, err = e.Publish(t.Context(), define(t, "name: writer\nstart: x\nnodes: [{id: x}]\n"))
	require.NoError(t, err)
	out, err := e.Run(t.Context(), workflow.Run{ID: "boss", Definition: boss}, map[string]any{"agent": "finder"})
	require.NoError(t, err)
	assert.Equal(t, workflow.RunCompleted, out.Status)
}
