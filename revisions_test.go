package pawl_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/workflow"
)

// The revisions of a run are what it began with and what each patch made of it, with who has done it and why; a fork has
// those of before as well.
func TestRevisions(t *testing.T) {
	ctx := t.Context()
	e, err := pawl.Open(ctx, replays.Dir(t), pawl.Options{Durability: pawl.ProcessCrash})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close(ctx)) }()
	d, err := workflow.ParseYAML([]byte("name: waits\nstart: w\nnodes: [{id: w, wait: {event: go}}]\n"))
	require.NoError(t, err)
	require.NoError(t, e.Start(pawl.As(ctx, "ann"), workflow.Run{ID: "a", Definition: d}, nil))
	ops := []any{map[string]any{"op": "add", "path": "/nodes/w/timeout", "value": "1h"}}
	_, err = e.Patch(pawl.Because(pawl.As(ctx, "bob"), "too slow"), "a", pawl.Patch{Base: 1, Ops: ops})
	require.NoError(t, err)
	require.NoError(t, e.Pause(ctx, "a"))
	_, err = e.Patch(ctx, "a", pawl.Patch{Base: 2, Ops: append(ops, ops...)})
	require.NoError(t, err)
	require.NoError(t, e.Fork(ctx, "a", "b", pawl.ForkOptions{At: 2}))

	list := func(id workflow.RunID, after int) (out []pawl.RunRevision) {
		for r, err := range e.Revisions(ctx, id, after) {
			require.NoError(t, err)
			require.False(t, r.At.IsZero())
			r.At = time.Time{}
			out = append(out, r)
		}
		return out
	}
	all := []pawl.RunRevision{{Revision: 1, Seq: 1, By: "ann"}, {Revision: 2, Seq: 2, By: "bob", Reason: "too slow", Ops: 1}, {Revision: 3, Seq: 4, Ops: 2}}
	require.Equal(t, all, list("a", 0))
	require.Equal(t, all[1:], list("a", 1))
	require.Empty(t, list("a", 3))
	require.Equal(t, all[:2], list("b", 0))
	for range e.Revisions(ctx, "a", 0) {
		break
	}
	for _, err := range e.Revisions(ctx, "nobody", 0) {
		require.ErrorIs(t, err, pawl.ErrRunNotFound)
	}
}
