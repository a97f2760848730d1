package pawl_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// The question to people may be an expression, and the lists of approvals carry
// the input of the node, also after a restart.
func TestAnApprovalSaysWhatItIsAbout(t *testing.T) {
	dir := t.TempDir()
	d := define(t, `
name: w
start: gate
nodes:
  - id: gate
    approval: {messageExpr: "'Pay ' + string(input.amount) + ' to ' + input.name + '?'"}
    input: {amount: input.amount}
`)
	plain := define(t, "name: p\nstart: gate\nnodes: [{id: gate, approval: {message: \"Go on?\"}}]\n")
	e := open(t, dir, pawl.Options{})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: d}, map[string]any{"amount": 7, "name": "Ann"}))
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "b", Definition: plain}, nil))
	look := func() {
		var got []pawl.Approval
		for a, err := range e.Approvals(t.Context(), pawl.ApprovalFilter{}) {
			require.NoError(t, err)
			got = append(got, a)
		}
		require.Equal(t, []pawl.Approval{
			{Run: "a", Workflow: "w", Token: 1, Node: "gate", Message: "Pay 7 to Ann?", Input: map[string]any{"amount": int64(7)}},
			{Run: "b", Workflow: "p", Token: 1, Node: "gate", Message: "Go on?"},
		}, got)
		snap, err := e.Inspect(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, map[string]any{"amount": int64(7)}, snap.Tokens[0].Input)
	}
	look()
	require.NoError(t, e.Close(context.Background()))
	e = open(t, dir, pawl.Options{})
	look()
	require.NoError(t, e.Vote(t.Context(), pawl.Target{Run: "a", Node: "gate"}, workflow.Ballot{By: "ann", Approved: true}))
	out, err := e.Wait(t.Context(), "a")
	require.NoError(t, err)
	require.NoError(t, out.Err())

	for id, expr := range map[workflow.RunID]string{"number": "1", "missing": "input.nobody"} {
		out, err := e.Run(t.Context(), workflow.Run{ID: id, Definition: define(t, "name: n\nstart: gate\nnodes: [{id: gate, approval: {messageExpr: "+expr+"}}]\n")}, nil)
		require.NoError(t, err)
		require.Equal(t, workflow.CodeExpression, out.Failure.Code)
	}
}
