package replay_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// why explains what a recorder has recorded.
func (r *recorder) why() replay.Explanation {
	r.t.Helper()
	x, err := replay.Why(r.recording())
	require.NoError(r.t, err)
	return x
}

// A run says what it waits for: who has voted, which conditions led there with which values,
// and until when.
func TestWhyItWaits(t *testing.T) {
	r := record(t, "order-42", `
name: order
start: check
nodes:
  - {id: check, task: check}
  - {id: approve, approval: {quorum: 2}, timeout: 1h}
  - {id: ship, task: ship}
transitions:
  - {from: check, to: ship, condition: "result.score > 0.8"}
  - {from: check, to: approve, priority: 1}
  - {from: approve, to: ship}
`, nil)
	require.Equal(t, "the result of task check, attempt 1", r.why().Waits[0].For)
	r.complete("check", 0, map[string]any{"score": 0.71})
	r.send(state.Ballot{Node: "approve", By: "ann", Approved: true})
	require.Equal(t, `order-42 of order is running after record 3, 2030-01-01 00:00:01.000
approve (t2) waits for people: 1 of 2 approvals (ann)
  until 2030-01-01 01:00:01.000
  it came from check by check->approve [tier 1] in record 2: TaskCompleted token=t1 attempt=1 at check
    t1 check->ship [tier 0]: result.score > 0.8 is false with result.score = 0.71
  try: pawl vote order-42 approve yes -m REASON`, r.why().String())
}

// Branches that wait alike are told together, what somebody must do first; of a join is told
// what it lacks.
func TestWhyAJoinWaits(t *testing.T) {
	r := record(t, "import-7", `
name: import
start: split
nodes:
  - {id: split}
  - {id: load, task: load, retry: {maxAttempts: 1, exhausted: park}}
  - {id: sum, task: sum}
transitions:
  - {from: split, to: load, foreach: {collection: input.files}, siblingGroup: files}
  - {from: load, to: sum, synchronization: {siblingGroup: files}}
`, map[string]any{"files": []any{"a", "b", "c", "d"}})
	r.complete("load", 0, int64(1))
	r.fail("load", "http_503")
	x := r.why()
	require.Len(t, x.Waits, 3)
	require.Equal(t, workflow.WaitingForOperator, x.Waits[0].Status)
	require.Equal(t, "load[1]", x.Waits[0].Place)
	require.Equal(t, "http_503", x.Waits[0].Failure.Code)
	require.Equal(t, 2, x.Waits[1].Count)
	require.Equal(t, "g1 files (join all at sum): 1 of 4 have arrived, 3 under way (load ×3, 1 parked), 0 to begin, 0 ended, 0 failed", x.Waits[2].For)
	require.False(t, x.Waits[2].Hopeless)
	require.Equal(t, []workflow.TransitionID{"split->load"}, x.Waits[1].Came.Transitions)
}

// Tokens that wait in one group for the same are explained once, not each by all of them.
func TestWhyOfAWideGroup(t *testing.T) {
	const branches = 1000
	r := record(t, "import-8", `
name: import
start: split
nodes: [{id: split}, {id: load, task: load}, {id: sum, task: sum}]
transitions:
  - {from: split, to: load, foreach: {collection: input.files}, siblingGroup: files}
  - {from: load, to: sum, synchronization: {siblingGroup: files}}
`, map[string]any{"files": slices.Repeat([]any{"a"}, branches)})
	few := testing.AllocsPerRun(1, func() { r.why() })
	for range branches - 1 {
		r.complete("load", 0, nil)
	}
	x := r.why()
	require.Equal(t, branches-1, x.Waits[1].Count)
	require.False(t, x.Waits[1].Hopeless)
	many := testing.AllocsPerRun(1, func() { r.why() })
	require.Less(t, (many-few)/branches, 200.0, "a few for each record and token")
}

// TestWhyOfManyJoins makes the text of a join once, and not for each branch that waits at it, of all the tokens.
func TestWhyOfManyJoins(t *testing.T) {
	const branches = 1000
	r := record(t, "import-9", `
name: import
start: split
nodes: [{id: split}, {id: part}, {id: a, task: a}, {id: b, task: b}, {id: c, join: all}, {id: sum}]
transitions:
  - {from: split, to: part, foreach: {collection: input.files}, siblingGroup: files}
  - {from: part, to: a}
  - {from: part, to: b}
  - {from: a, to: c}
  - {from: b, to: c}
  - {from: c, to: sum, synchronization: {siblingGroup: files}}
`, map[string]any{"files": slices.Repeat([]any{"a"}, branches)})
	few := bytesOf(func() { r.why() })
	for range branches {
		r.complete("a", 0, nil)
	}
	x := r.why()
	require.Equal(t, branches, x.Waits[1].Count)
	require.Contains(t, x.Waits[1].For, "has a->c; lacks b->c (from b ×1000)")
	require.Less(t, (bytesOf(func() { r.why() })-few)/branches, int64(20<<10), "some for each record and token")
}

// A join of a node that nothing can bring to fire any more is told as such.
func TestAJoinWithoutHope(t *testing.T) {
	r := record(t, "r", `
name: r
start: begin
nodes:
  - {id: begin}
  - {id: a, task: a}
  - {id: b, task: b}
  - {id: both, task: both, join: all}
  - {id: away}
  - {id: other, task: other}
transitions:
  - {from: begin, to: a}
  - {from: begin, to: b}
  - {from: begin, to: other}
  - {from: a, to: both}
  - {from: b, to: both, condition: result == 1}
  - {from: b, to: away, priority: 1}
`, nil)
	r.complete("a", 0, nil)
	require.Equal(t, "join all: has a->both; lacks b->both (from b t3)", r.why().Waits[2].For)
	r.complete("b", 0, int64(2))
	x := r.why()
	require.Len(t, x.Waits, 2)
	require.True(t, x.Waits[0].Hopeless)
	require.Equal(t, "join all: has a->both; lacks b->both (which nothing can bring any more)", x.Waits[0].For)
	require.Contains(t, x.String(), "nothing in the run can bring that any more")
}

// A fan-out that gathers may still fail where it began, and lead to a join from there.
func TestAFanOutMayFailTowardsAJoin(t *testing.T) {
	r := record(t, "r", `
name: r
start: s
nodes:
  - {id: s}
  - {id: a, task: a}
  - {id: fan}
  - {id: work, task: work}
  - {id: done}
  - {id: cleanup}
  - {id: j, task: j, join: all}
transitions:
  - {from: s, to: a}
  - {from: s, to: fan}
  - {from: a, to: j}
  - {from: fan, to: work, spawnCount: 2, siblingGroup: g}
  - {from: work, to: done, synchronization: {siblingGroup: g}}
  - {from: fan, to: cleanup, outcome: error}
  - {from: cleanup, to: j}
`, nil)
	r.complete("a", 0, nil)
	for _, w := range r.why().Waits {
		require.False(t, w.Hopeless, w.For)
	}
	r.fail("work", "broken")
	require.Equal(t, "j", r.why().Waits[0].Place)
}

// A run that failed tells what failed first, and how it came there.
func TestWhyItFailed(t *testing.T) {
	r := record(t, "r", `
name: r
start: a
nodes:
  - {id: a, task: a}
  - {id: b, task: b}
  - {id: tidy, task: tidy}
  - {id: c, task: c}
transitions:
  - {from: a, to: b}
  - {from: b, to: tidy, outcome: error}
  - {from: tidy, to: c}
`, nil)
	r.complete("a", 0, nil)
	r.fail("b", "busy")
	r.complete("tidy", 0, nil)
	r.fail("c", "broken")
	x := r.why()
	require.Equal(t, workflow.RunFailed, x.Status)
	require.Len(t, x.Failed, 1, "what was caught is no cause")
	require.Equal(t, "c", x.Failed[0].Place)
	require.Equal(t, "broken", x.Failed[0].Failure.Code)
	require.Equal(t, "tidy", x.Failed[0].Came.From)
	require.Equal(t, int64(4), x.Failed[0].Came.Seq)
	require.Equal(t, []string{"pawl fork r NEWID --node c -m REASON"}, x.Failed[0].Try)
	require.Contains(t, x.String(), "\n  try: pawl fork r NEWID --node c -m REASON")
}

// The first token of a run came from nowhere, and one that a timer moved says so.
func TestArrivals(t *testing.T) {
	r := record(t, "r", `
name: r
start: nap
nodes:
  - {id: nap, wait: {for: 1h}}
  - {id: go, task: go}
transitions:
  - {from: nap, to: go}
`, nil)
	x := r.why()
	require.Nil(t, x.Waits[0].Came)
	require.Equal(t, dawn.Add(time.Hour), x.Waits[0].Until)
	r.now = dawn.Add(time.Hour)
	r.send(state.AlarmFired{At: r.now.UnixMilli()})
	require.Equal(t, "nap", r.why().Waits[0].Came.From)
}

// A wait with a condition says so, how many signals have come that did not fulfil it, and with which error the last of them failed.
func TestWhyASignalIsNotTaken(t *testing.T) {
	r := record(t, "ev-3", `
name: r
start: split
nodes:
  - {id: split}
  - {id: paid, wait: {any: [{event: paid, match: "payload.amount > 10"}, {for: 1h}]}}
  - {id: any, wait: {any: [{event: paid, match: "payload.amount > 20"}, {event: paid, match: "payload.vip"}, {event: cash}]}}
  - {id: free, wait: {any: [{event: gone}, {event: gone, match: "payload.amount > 10"}]}}
transitions:
  - {from: split, to: paid}
  - {from: split, to: any}
  - {from: split, to: free}
`, nil)
	waits := func() map[string]string {
		out := map[string]string{}
		for _, w := range r.why().Waits {
			out[w.Place] = w.For
		}
		return out
	}
	require.Equal(t, map[string]string{
		"paid": "the signal paid (if payload.amount > 10)",
		"any":  "the signal paid or cash (paid if payload.amount > 20 or payload.vip)",
		"free": "the signal gone",
	}, waits())
	r.send(state.Signal{Name: "paid", Payload: map[string]any{"amount": int64(1), "vip": false}})
	require.Equal(t, "the signal paid (if payload.amount > 10; 1 kept signal did not match)", waits()["paid"])
	r.send(state.Signal{Name: "paid"})
	require.Equal(t, map[string]string{
		"paid": "the signal paid (if payload.amount > 10; 2 kept signals did not match)",
		"any":  "the signal paid or cash (paid if payload.amount > 20 or payload.vip; 2 kept signals did not match)",
		"free": "the signal gone",
	}, waits())
	for _, w := range r.why().Waits {
		if w.Place == "any" {
			require.Equal(t, "payload.vip: 1:8: no such key: vip", w.Rejected.Message)
			require.Equal(t, []string{"pawl signal ev-3 paid --payload JSON -m REASON", "pawl signal ev-3 cash -m REASON"}, w.Try)
		}
	}
	r.send(state.Signal{Name: "paid", Payload: map[string]any{"amount": int64(11)}})
	require.Empty(t, waits()["paid"], "it took that")
}
