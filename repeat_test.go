package pawl_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/workflow"
)

// asksTwice asks people in two rounds of a loop.
const asksTwice = `
name: rounds
start: ask
nodes:
  - {id: ask, approval: {message: ok}, output: {state.n: "(has(state.n) ? state.n : 0) + 1"}}
  - {id: done}
transitions:
  - {from: ask, to: ask, condition: state.n < 2, loop: {maxIterations: 5}}
  - {from: ask, to: done}
`

// A vote that comes again, because its caller does not know whether it took effect, is no error and answers nothing else: not the
// next round of a loop, and not when the run has ended since. The run is loaded again in between.
func TestVotesMayBeRepeated(t *testing.T) {
	dir := replays.Dir(t)
	e, err := pawl.Open(t.Context(), dir, pawl.Options{})
	require.NoError(t, err)
	reopen := func() {
		require.NoError(t, e.Close(t.Context()))
		e, err = pawl.Open(t.Context(), dir, pawl.Options{})
		require.NoError(t, err)
	}
	def := define(t, asksTwice)
	for _, id := range []workflow.RunID{"by-id", "by-token"} {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: def}, nil))
	}
	yes := workflow.Ballot{ID: "mail-1", By: "ann", Approved: true, Comment: "fine", Data: map[string]any{"n": 1.5}}
	ofNode, ofToken := pawl.Target{Run: "by-id", Node: "ask"}, pawl.Target{Run: "by-token", Token: 1}
	vote := func(to pawl.Target, id string, change func(*workflow.Ballot)) error {
		b := yes
		if b.ID = id; change != nil {
			change(&b)
		}
		return e.Vote(t.Context(), to, b)
	}
	require.NoError(t, vote(ofNode, "mail-1", nil))
	require.NoError(t, vote(ofToken, "", nil))
	for range 2 {
		require.NoError(t, vote(ofNode, "mail-1", nil))
		require.NoError(t, vote(ofToken, "", nil))
		require.ErrorIs(t, vote(ofToken, "", func(b *workflow.Ballot) { b.Approved = false }), pawl.ErrNotLive)
		require.ErrorIs(t, vote(ofToken, "", func(b *workflow.Ballot) { b.By = "bob" }), pawl.ErrNotLive)
		require.ErrorIs(t, vote(ofToken, "", func(b *workflow.Ballot) { b.Comment = "not so fine" }), pawl.ErrNotLive)
		for _, id := range []workflow.RunID{"by-id", "by-token"} {
			s := mustInspect(t, e, id)
			require.Equal(t, workflow.RunRunning, s.Status)
			require.Equal(t, map[string]any{"n": int64(1)}, s.State, "the second round is not answered")
		}
		reopen()
	}
	require.NoError(t, vote(ofNode, "mail-2", nil))
	require.NoError(t, vote(pawl.Target{Run: "by-token", Node: "ask"}, "", nil))
	for _, id := range []workflow.RunID{"by-id", "by-token"} {
		require.NoError(t, wait(t, e, id).Err())
	}
	for range 2 { // both have ended
		require.NoError(t, vote(ofNode, "mail-1", nil))
		require.NoError(t, vote(ofNode, "mail-2", nil))
		require.NoError(t, vote(ofToken, "", nil))
		require.ErrorIs(t, vote(ofNode, "mail-3", nil), pawl.ErrEnded)
		require.ErrorIs(t, vote(ofNode, "", nil), pawl.ErrEnded)
		reopen()
	}
	require.NoError(t, e.Close(t.Context()))
}

// A vote on an approval that is open still, a signal and a branch may be repeated likewise.
func TestCallsMayBeRepeated(t *testing.T) {
	e := open(t, replays.Dir(t), pawl.Options{Executor: pawl.Handlers{"work": double}})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, `
name: all
start: s
nodes: [{id: s}, {id: ask, approval: {message: ok, quorum: 2}}, {id: each}, {id: w, task: work}, {id: hold, wait: {event: go}}, {id: all}]
transitions:
  - {from: s, to: ask}
  - {from: s, to: each}
  - {from: each, to: hold, foreach: {collection: "[1]"}, siblingGroup: g}
  - {from: hold, to: all, synchronization: {siblingGroup: g}}
`)}, nil))
	ask := pawl.Target{Run: "r"}
	for token, err := range e.Tokens(t.Context(), "r", pawl.TokenFilter{Node: "ask"}) {
		require.NoError(t, err)
		ask.Token = token.ID
	}
	ballot := workflow.Ballot{By: "ann", Approved: true}
	group := pawl.GroupTarget{Run: "r", Group: "g", ID: "row-7"}
	for range 2 {
		require.NoError(t, e.Vote(t.Context(), ask, ballot))
		require.NoError(t, e.AddBranch(t.Context(), group, 2))
		require.Equal(t, 2, mustInspect(t, e, "r").Groups[0].Total)
	}
	require.ErrorIs(t, e.Vote(t.Context(), ask, workflow.Ballot{By: "ann"}), pawl.ErrAlreadyVoted)
	require.ErrorIs(t, e.Vote(t.Context(), pawl.Target{Run: "r", Node: "ask"}, ballot), pawl.ErrAlreadyVoted, "by node it may mean another round")
	require.NoError(t, e.Vote(t.Context(), ask, workflow.Ballot{By: "bob", Approved: true}))
	sent := workflow.Signal{Name: "go", ID: "g-1"}
	for range 2 {
		require.NoError(t, e.Signal(t.Context(), "r", sent))
	}
	require.NoError(t, e.CloseGroup(t.Context(), group))
	require.NoError(t, e.AddBranch(t.Context(), group, 2), "the group is closed since")
	require.NoError(t, wait(t, e, "r").Err())
	require.NoError(t, e.Signal(t.Context(), "r", sent), "the run has ended since")
	require.NoError(t, e.AddBranch(t.Context(), group, 2))
	require.ErrorIs(t, e.Signal(t.Context(), "r", workflow.Signal{Name: "go", ID: "g-2"}), pawl.ErrEnded)
	for _, bad := range []string{"pawl:vote:1", strings.Repeat("x", 256), "\xff"} {
		require.ErrorIs(t, e.Signal(t.Context(), "r", workflow.Signal{Name: "go", ID: bad}), pawl.ErrInvalid)
		require.ErrorIs(t, e.Vote(t.Context(), ask, workflow.Ballot{ID: bad, By: "ann"}), pawl.ErrInvalid)
		require.ErrorIs(t, e.AddBranch(t.Context(), pawl.GroupTarget{Run: "r", Group: "g", ID: bad}, 2), pawl.ErrInvalid)
	}
}
