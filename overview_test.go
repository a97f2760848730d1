package pawl_test

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

const wide = `
name: wide
start: split
nodes:
  - {id: split}
  - {id: load, task: load}
  - {id: sum}
transitions:
  - {from: split, to: load, foreach: {collection: input.files}, siblingGroup: files}
  - {from: load, to: sum, synchronization: {siblingGroup: files}}
`

// loading starts a run with so many branches, whose tasks stay out.
func loading(t testing.TB, dir string, branches int) *pawl.Engine {
	t.Helper()
	e := open(t, dir, pawl.Options{Executor: pawl.Handlers{"*": func(_ context.Context, _ pawl.Task) (any, error) { return nil, pawl.ErrPending }}})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, wide)}, map[string]any{"files": make([]any, branches)}))
	return e
}

// tokensOf lists tokens, which must be in the order of their ids.
func tokensOf(t *testing.T, e *pawl.Engine, f pawl.TokenFilter) (out []pawl.Token) {
	t.Helper()
	last := f.After
	for token, err := range e.Tokens(t.Context(), "r", f) {
		require.NoError(t, err)
		require.Greater(t, token.ID, last)
		last = token.ID
		out = append(out, token)
	}
	return out
}

// A run tells its numbers from memory while it is awake, and from the disk while it is not, as
// Inspect tells them one by one.
func TestOverview(t *testing.T) {
	dir := t.TempDir()
	const branches = 2500 // more than a page
	e := loading(t, dir, branches)
	keys := []pawl.Key{}
	for _, token := range tokensOf(t, e, pawl.TokenFilter{Node: "load"}) {
		keys = append(keys, token.Key)
	}
	require.Len(t, keys, branches)
	require.NoError(t, e.Complete(t.Context(), keys[0], nil))
	require.NoError(t, e.Complete(t.Context(), keys[2000], nil))
	look := func() {
		o, err := e.Overview(t.Context(), "r")
		require.NoError(t, err)
		snap, err := e.Inspect(t.Context(), "r")
		require.NoError(t, err)
		require.Equal(t, []pawl.NodeOverview{
			{Node: "split", Tokens: map[workflow.TokenStatus]int{workflow.Completed: 1}},
			{Node: "load", Tokens: map[workflow.TokenStatus]int{workflow.Dispatched: branches - 2, workflow.WaitingForSiblings: 2}},
		}, o.Nodes)
		require.Equal(t, snap.Groups, o.Groups)
		require.Equal(t, 1, o.Gather)
		require.Equal(t, snap.Outcome, o.Outcome)
		require.Equal(t, []any{snap.Seq, snap.Live, snap.Revision}, []any{o.Seq, o.Live, o.Revision})
		require.Equal(t, unobserved(snap.Tokens), unobserved(tokensOf(t, e, pawl.TokenFilter{})))
		arrived := tokensOf(t, e, pawl.TokenFilter{Group: 1, Status: []workflow.TokenStatus{workflow.WaitingForSiblings}})
		require.Len(t, arrived, 2)
		require.Equal(t, []workflow.NodeID{"load", "sum"}, []workflow.NodeID{arrived[0].Node, arrived[0].JoinAt})
		require.Len(t, tokensOf(t, e, pawl.TokenFilter{After: branches}), 1)
		require.Empty(t, tokensOf(t, e, pawl.TokenFilter{After: math.MaxInt64}))
	}
	look()
	require.NoError(t, e.Close(context.Background()))
	e = open(t, dir, pawl.Options{IdleAfter: time.Nanosecond}) // it falls asleep
	look()
	_, err := e.Overview(t.Context(), "nobody")
	require.ErrorIs(t, err, pawl.ErrRunNotFound)
	for _, err := range e.Tokens(t.Context(), "nobody", pawl.TokenFilter{}) {
		require.ErrorIs(t, err, pawl.ErrRunNotFound)
	}
}

// BenchmarkOverview is that of a live run of 10,000 branches.
func BenchmarkOverview(b *testing.B) {
	e := loading(b, b.TempDir(), 10_000)
	for b.Loop() {
		if _, err := e.Overview(b.Context(), "r"); err != nil {
			b.Fatal(err)
		}
	}
}

// unobserved returns tokens without what is true at a moment only: which tasks are performed.
func unobserved(tokens []pawl.Token) []pawl.Token {
	out := slices.Clone(tokens)
	for i := range out {
		out[i].Executing, out[i].Since, out[i].Worker, out[i].Queued = false, time.Time{}, "", nil
	}
	return out
}
