package pawl_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

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
