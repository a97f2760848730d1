package replay_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// Each wait names commands that can be typed: of the token where its node has several, with names
// that a shell takes for one word.
func TestCommandsToTry(t *testing.T) {
	r := record(t, "o'r 1", `
name: r
start: split
nodes:
  - {id: split}
  - {id: load, task: load, retry: {maxAttempts: 1, exhausted: park}}
  - {id: begin, task: begin}
  - {id: paid, wait: {any: [{event: paid by card}, {event: cash}]}}
  - {id: ask, approval: {}}
  - {id: away, wait: {for: 1h}}
  - {id: sum}
transitions:
  - {from: split, to: load, foreach: {collection: "['a', 'b']"}, siblingGroup: files}
  - {from: load, to: sum, synchronization: {siblingGroup: files}}
  - {from: split, to: begin}
  - {from: split, to: paid}
  - {from: split, to: ask}
  - {from: split, to: away}
`, nil)
	r.fail("load", "http_503")
	tries := map[string][]string{}
	for _, w := range r.why().Waits {
		tries[w.Place] = w.Try
	}
	id := `'o'\''r 1'`
	require.Equal(t, map[string][]string{
		"load[0]": {"pawl retry " + id + " t2 -m REASON", "pawl skip " + id + " t2 -m REASON"},
		"load[1]": {"pawl skip " + id + " t3 -m REASON"},
		"begin":   {"pawl skip " + id + " begin -m REASON"},
		"paid":    {"pawl signal " + id + " 'paid by card' -m REASON", "pawl signal " + id + " cash -m REASON"},
		"ask":     {"pawl vote " + id + " ask yes -m REASON"},
		"away":    nil,
	}, tries)

	r.send(state.Suspend{Cause: "broken"})
	for _, w := range r.why().Waits {
		require.Equal(t, []string{"pawl resume " + id + " -m REASON"}, w.Try)
	}
}

// A group that only waits for further branches is closed, also one that has none.
func TestCloseToTry(t *testing.T) {
	for _, files := range [][]any{{"a"}, {}} {
		r := record(t, "import-7", `
name: r
start: split
nodes: [{id: split}, {id: load, task: load}, {id: sum}]
transitions:
  - {from: split, to: load, foreach: {collection: input.files}, siblingGroup: files, open: true}
  - {from: load, to: sum, synchronization: {siblingGroup: files}}
`, map[string]any{"files": files})
		if len(files) > 0 {
			require.Equal(t, []string{"pawl skip import-7 load -m REASON"}, r.why().Waits[0].Try)
			r.complete("load", 0, nil)
		}
		x := r.why()
		require.Len(t, x.Waits, 1)
		require.Equal(t, []string{"pawl close import-7 files -m REASON"}, x.Waits[0].Try)
		require.Contains(t, x.Waits[0].For, "; it takes further branches until it is closed")
		require.Equal(t, []string{"split", "load[0]"}[len(files)], x.Waits[0].Place)
		r.send(state.CloseGroup{Group: "files"})
		require.Equal(t, workflow.RunCompleted, r.why().Status)
	}
}

// A task that has no room below a limit of the run begins when that is raised: another attempt would be parked again.
func TestRaiseToTry(t *testing.T) {
	r := record(t, "bud-5", `
name: r
start: split
limits: {meta: {cost: 1, rows: 10}}
nodes:
  - {id: split}
  - {id: first, task: model, budget: {cost: 0.8, rows: 1}}
  - {id: waits, task: model, budget: {cost: 0.5, rows: 0}}
  - {id: parks, task: model, budget: {cost: 0.5, rows: 10}, retry: {maxAttempts: 1, exhausted: park}}
transitions:
  - {from: split, to: first}
  - {from: split, to: waits}
  - {from: split, to: parks}
`, nil)
	tries := func() map[string][]string {
		out := map[string][]string{}
		for _, w := range r.why().Waits {
			out[w.Place] = w.Try
		}
		return out
	}
	require.Equal(t, map[string][]string{
		"first": {"pawl skip bud-5 first -m REASON"},
		"waits": {"pawl raise bud-5 cost=NUMBER -m REASON", "pawl skip bud-5 waits -m REASON"},
		"parks": {"pawl raise bud-5 cost=NUMBER rows=NUMBER -m REASON", "pawl skip bud-5 parks -m REASON"},
	}, tries())
	first := r.at("first", 0)
	r.send(state.TaskCompleted{Token: first.ID, Attempt: 1, Epoch: first.Epoch, Metadata: map[string]any{"cost": 0.4, "rows": int64(1)}})
	require.Equal(t, map[string][]string{
		"waits": {"pawl skip bud-5 waits -m REASON"},
		"parks": {"pawl raise bud-5 rows=NUMBER -m REASON", "pawl skip bud-5 parks -m REASON"},
	}, tries())
}
