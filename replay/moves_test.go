package replay_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// Each record says which tokens it has made and moved, also those of a fan-out.
func TestMoves(t *testing.T) {
	r := record(t, "import-7", `
name: import
start: split
nodes:
  - {id: split}
  - {id: load, task: load}
  - {id: sum}
transitions:
  - {from: split, to: load, spawnCount: 2, siblingGroup: files}
  - {from: load, to: sum, synchronization: {siblingGroup: files}}
`, nil)
	r.complete("load", 1, nil)
	r.complete("load", 0, nil)
	var got []string
	for m, err := range replay.Moves(r.recording()) {
		require.NoError(t, err)
		line := fmt.Sprintf("%d %s", m.Seq, m.At.Format("05"))
		for _, tok := range m.Tokens {
			line += fmt.Sprintf(", %v of %v at %s %v", tok.Token, tok.Scope, tok.Node, tok.Status)
		}
		got = append(got, line)
	}
	require.Equal(t, []string{
		"1 00, t1 of root at split completed, t2 of g1:0 at load dispatched, t3 of g1:1 at load dispatched",
		"2 01, t3 of g1:1 at load waiting_for_siblings",
		"3 02, t2 of g1:0 at load completed, t3 of g1:1 at load completed, t4 of root at sum completed",
	}, got)
}

// A task that has failed and is retried has its failure, and one that asked to be called again has none: both are retrying.
func TestMovesTellAFailureFromASnooze(t *testing.T) {
	const polls = "name: polls\nstart: w\nnodes: [{id: w, task: w, retry: {maxAttempts: 3}}]\n"
	for _, failed := range []bool{false, true} {
		r := record(t, "polls", polls, nil)
		if tok := r.at("w", 0); failed {
			r.fail("w", "busy")
		} else {
			r.send(state.TaskSnoozed{Token: tok.ID, Attempt: tok.Attempt, Epoch: tok.Epoch, After: time.Minute})
		}
		var last replay.MovedToken
		for m, err := range replay.Moves(r.recording()) {
			require.NoError(t, err)
			require.Len(t, m.Tokens, 1)
			last = m.Tokens[0]
		}
		require.Equal(t, workflow.Retrying, last.Status)
		require.Equal(t, failed, last.Failed)
	}
}
