package pawl

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/roster"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// publish publishes a definition.
func publish(t *testing.T, e *Engine, d *workflow.Definition) {
	t.Helper()
	_, err := e.Publish(t.Context(), d)
	require.NoError(t, err)
}

// A child's id may be taken by a run that is not the child: one with another
// parent, with none, or with another definition. The node fails, and that run
// goes on as if nothing had been.
func TestIDOfChildIsTaken(t *testing.T) {
	child := compileText(t, "name: one\nstart: w\nnodes: [{id: w, task: w}]\n")
	other := compileText(t, "name: other\nstart: w\nnodes: [{id: w, task: w}]\n")
	parent := compileText(t, `
name: parent
start: sub
nodes: [{id: sub, subworkflow: {name: one}}, {id: rescue, output: {output.why: error.code, output.text: error.message}}]
transitions: [{from: sub, to: rescue, outcome: error}]
`)
	for name, b := range map[string]birth{
		"another parent":     {graph: child, parent: &workflow.Parent{Run: "q", Token: 1, Attempt: 1, Root: "q", Depth: 1}},
		"no parent":          {graph: child},
		"another definition": {graph: other, parent: &workflow.Parent{Run: "p", Token: 1, Attempt: 1, Root: "q", Depth: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			e, err := Open(ctx, t.TempDir(), Options{})
			require.NoError(t, err)
			defer func() { require.NoError(t, e.Close(context.Background())) }()
			publish(t, e, child.Definition)
			require.NoError(t, e.Start(ctx, workflow.Run{ID: "q", Definition: child.Definition}, nil))

			b.graph, b.inputHash = e.dir.AddDefinition(b.graph), value.Hash(map[string]any{})
			require.NoError(t, e.askOrStart(ctx, "p/1.1", state.Start{Input: map[string]any{}, Parent: b.parent}, &b))
			out, err := e.Run(ctx, workflow.Run{ID: "p", Definition: parent.Definition}, nil)
			require.NoError(t, err)
			require.Equal(t, map[string]any{"why": workflow.CodeIDConflict, "text": `run "p/1.1" is not the child`}, out.Output)

			taken, err := e.Inspect(ctx, "p/1.1")
			require.NoError(t, err)
			require.Equal(t, workflow.RunRunning, taken.Status, "it is not cancelled with a parent that is not its own")
		})
	}
}

func compileText(t *testing.T, yaml string) *workflow.Graph {
	t.Helper()
	d, err := workflow.ParseYAML([]byte(yaml))
	require.NoError(t, err)
	g, err := workflow.Compile(d)
	require.NoError(t, err)
	return g
}

// A child whose parent is not there any more is not wanted.
func TestAnOrphanIsCancelled(t *testing.T) {
	e, err := Open(t.Context(), t.TempDir(), Options{})
	require.NoError(t, err)
	d := &workflow.Definition{Name: "w", Start: "a", Nodes: []workflow.Node{{ID: "a", Wait: &workflow.WaitSpec{Event: "e"}}}}
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "orphan", Definition: d}, nil))
	e.messenger.Enqueue("orphan", roster.Message{Parent: workflow.Parent{Run: "gone", Token: 1, Attempt: 1}})
	out, err := e.Wait(t.Context(), "orphan")
	require.NoError(t, err)
	require.Equal(t, workflow.RunCancelled, out.Status)
	require.NoError(t, e.Close(t.Context()))
}
