package planning_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// TestEndlessPlans: definitions that would go on for ever in one message fail
// in bounded time and memory.
func TestEndlessPlans(t *testing.T) {
	for name, c := range map[string]struct{ limit, yaml string }{
		"gateways": {"limit plan", `
name: x
start: a
nodes: [{id: a}, {id: z}]
transitions:
  - {from: a, to: z, condition: "count['a->a'] < 0"}
  - {from: a, to: z, id: other, condition: "count['a->a'] < 0"}
  - {from: a, to: a, loop: {maxIterations: 1000000}, priority: 1}
`},
		"groups within each other": {"limit nesting", `
name: x
start: a
nodes: [{id: a}, {id: b}, {id: z}]
transitions:
  - {from: a, to: b, siblingGroup: g}
  - {from: b, to: a, loop: {maxIterations: 1000000}}
  - {from: b, to: z, synchronization: {siblingGroup: g}, priority: 1}
`},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "gateways" {
				harness.RequireLevel(t, harness.Gate, "package bombtest fails at the same limit, without a trace of half a million decisions")
			}
			begin := time.Now()
			plan, _, err := planning.Explain(newPlayer(t, compile(t, c.yaml)).state, state.Start{}, dawn)
			require.NoError(t, err)
			require.Len(t, plan.Decisions, 2)
			require.Contains(t, plan.Decisions[1].String(), c.limit)
			require.LessOrEqual(t, len(plan.Trace), limits.MaxNotes)
			require.Less(t, time.Since(begin), time.Minute)
		})
	}
}

// TestStartAtALimit: a run that fails in the plan which starts it has started as any other; up to version 5 it had lost what the
// schedule and the trace of its start say.
func TestStartAtALimit(t *testing.T) {
	p := newPlayer(t, compile(t, `
name: x
start: a
timeout: 1h
limits: {tokens: 2}
nodes: [{id: a}, {id: b}]
transitions: [{from: a, to: b, spawnCount: 5}]
`))
	m := state.Start{Tenant: "acme", ScheduledAt: dawn.Add(-time.Minute), Trace: &state.Trace{Parent: "00-01-02-01", At: 7}}
	want := decision.StartRun{Input: map[string]any{}, At: dawn, Due: dawn.Add(time.Hour), Tenant: m.Tenant, ScheduledAt: m.ScheduledAt, Trace: m.Trace}
	earlier := want
	earlier.Due, earlier.ScheduledAt, earlier.Trace = time.Time{}, time.Time{}, nil
	for rules, want := range map[int]decision.StartRun{0: want, 5: earlier} {
		p.state.Rules = rules
		plan, err := planning.Step(p.state, m, dawn)
		require.NoError(t, err)
		require.Len(t, plan.Decisions, 2)
		require.Equal(t, want, plan.Decisions[0])
		require.Contains(t, plan.Decisions[1].String(), "limit tokens")
	}
}

// TestExpiredSignalsDoNotCount: signals whose ttl has passed make room for new
// ones, and the others are kept.
func TestExpiredSignalsDoNotCount(t *testing.T) {
	p := newPlayer(t, compile(t, `
name: x
start: a
nodes: [{id: a, task: work}]
`))
	p.quick = true
	keep := func(name string, ttl time.Duration) (int, error) {
		plan, err := p.send(state.Signal{Name: name, TTL: ttl, Early: true})
		return len(plan.Decisions), err
	}
	_, err := p.send(state.Start{})
	require.NoError(t, err)
	for i := range limits.MaxSignals {
		name, ttl := "old", time.Minute
		if i%2 > 0 {
			name, ttl = "new", 0
		}
		_, err := keep(name, ttl)
		require.NoError(t, err)
	}
	p.now = p.now.Add(time.Minute - time.Millisecond)
	_, err = keep("new", 0)
	var limit *workflow.LimitError
	require.ErrorAs(t, err, &limit, "none has expired")
	require.Equal(t, "signals", limit.Limit)

	p.now = p.now.Add(time.Millisecond)
	decided, err := keep("new", 0)
	require.NoError(t, err)
	require.Equal(t, limits.MaxSignals/2+1, decided, "every expired one is lost, and one is kept")
	require.Equal(t, limits.MaxSignals/2+1, p.state.KeptSignals())
	for k := range p.state.KeptSignalsOf("old", "new") {
		require.Equal(t, "new", k.Name)
	}
	decided, err = keep("old", time.Minute)
	require.NoError(t, err)
	require.Equal(t, 1, decided, "there is room")
}

// TestWaitsThatAreTooLong: a wait of more than 200 years fails, but for a record of a planner that let it begin.
func TestWaitsThatAreTooLong(t *testing.T) {
	p := newPlayer(t, compile(t, `
name: x
start: a
nodes: [{id: a, wait: {until: input.at}}]
`))
	start := state.Start{Input: map[string]any{"at": dawn.Add(timeout.MaxWait + time.Millisecond).Format(time.RFC3339Nano)}}
	plan, err := planning.Step(p.state, start, dawn)
	require.NoError(t, err)
	require.Contains(t, text(plan), "expression_error")
	p.state.Rules = 2
	plan, err = planning.Step(p.state, start, dawn)
	require.NoError(t, err)
	require.Contains(t, text(plan), "await-timer")
	p.state.Rules = 0
	plan, err = planning.Step(p.state, state.Start{Input: map[string]any{"at": dawn.Add(timeout.MaxWait).Format(time.RFC3339Nano)}}, dawn)
	require.NoError(t, err)
	require.Contains(t, text(plan), "await-timer")
}

// TestForkOfAWaitForTheLastInstant: in a fork a timer is later by what has passed, but never later than the last instant there is,
// for which runs of older planners may wait.
func TestForkOfAWaitForTheLastInstant(t *testing.T) {
	p := newPlayer(t, compile(t, `
name: x
start: a
nodes: [{id: a, wait: {until: input.at}}]
`))
	p.state.Rules = 2
	_, err := p.send(state.Start{Input: map[string]any{"at": timeout.Far.Format(time.RFC3339Nano)}})
	require.NoError(t, err)
	p.state.Rules = 0
	fork := state.RunForked{Run: "f", From: workflow.ForkPoint{Run: "r", Record: 1}, AsOf: p.now.UnixMilli()}
	p.now = p.now.AddDate(1, 0, 0)
	_, err = p.send(fork)
	require.NoError(t, err)
	require.Equal(t, timeout.Far, p.state.Token(1).Due)
	require.Equal(t, timeout.Far, p.state.Alarm())
}

// TestNegativeZeroOfOlderRecords: an expression that came to -0 failed its node up to version 2, and gives 0 since.
func TestNegativeZeroOfOlderRecords(t *testing.T) {
	p := newPlayer(t, compile(t, `
name: x
start: a
nodes: [{id: a, output: {output.n: math.ceil(-0.5)}}]
`))
	plan, err := planning.Step(p.state, state.Start{}, dawn)
	require.NoError(t, err)
	require.Contains(t, text(plan), `complete-run output={"n":0}`)
	p.state.Rules = 2
	plan, err = planning.Step(p.state, state.Start{}, dawn)
	require.NoError(t, err)
	require.Contains(t, text(plan), "negative zero is refused")
}

// TestSnoozesOfOlderRecords: up to version 2 a call that ended with a snooze counted as an attempt of a failure.
func TestSnoozesOfOlderRecords(t *testing.T) {
	p := newPlayer(t, compile(t, `
name: x
start: a
nodes: [{id: a, task: t, retry: {maxAttempts: 1, exhausted: park}}]
`))
	play := func(m state.Message) decision.Plan {
		plan, err := p.send(m)
		require.NoError(t, err)
		return plan
	}
	play(state.Start{})
	snoozeAndFail := func() (attempts int) {
		t := p.state.Token(1)
		play(state.TaskSnoozed{Token: t.ID, Attempt: t.Attempt, Epoch: t.Epoch, After: time.Second})
		play(state.Retry{Node: "a"})
		t = p.state.Token(1)
		plan := play(state.TaskFailed{Token: t.ID, Attempt: t.Attempt, Epoch: t.Epoch, Failure: workflow.Failure{Code: "busy"}})
		return plan.Decisions[0].(decision.ParkTask).Failure.Attempts
	}
	require.Equal(t, 1, snoozeAndFail())
	play(state.Retry{Node: "a"})
	require.Equal(t, 2, snoozeAndFail(), "an operator's retry forgives snoozes, which still are no attempts")
	p.state.Rules = 2
	play(state.Retry{Node: "a"})
	require.Equal(t, 6, snoozeAndFail())
}

// TestForeachOverALargeValue: the failure of a foreach over what is no list quotes little of it, and all of it in the
// journals of planners up to version 5.
func TestForeachOverALargeValue(t *testing.T) {
	p := newPlayer(t, compile(t, `{name: x, start: a, nodes: [{id: a}, {id: b}], transitions: [{from: a, to: b, foreach: {collection: input}}]}`))
	start := state.Start{Input: map[string]any{"text": strings.Repeat("x", 100_000)}}
	p.state.Rules = 5
	plan, err := planning.Step(p.state, start, p.now)
	require.NoError(t, err)
	require.Greater(t, len(text(plan)), 200_000)
	p.state.Rules = 0
	_, err = p.send(start)
	require.NoError(t, err)
	require.Less(t, len(p.state.Failure.Message), 1000)
	require.Contains(t, p.state.Failure.Message, `foreach input: {"text":"xxx`)
}

// TestCancelledBranchesArePassedOverOnce: to cancel all of a wide fan-out of which few may run at once takes time in
// proportion to it.
func TestCancelledBranchesArePassedOverOnce(t *testing.T) {
	const n = 20_000
	p := newPlayer(t, compile(t, `
name: x
start: a
nodes: [{id: a}, {id: b, task: work}, {id: c}]
transitions:
  - {from: a, to: b, foreach: {collection: input.l}, siblingGroup: g, maxConcurrency: 2}
  - {from: b, to: c, synchronization: {siblingGroup: g}}
`))
	p.quick = true
	_, err := p.send(state.Start{Input: map[string]any{"l": make([]any, n)}})
	require.NoError(t, err)
	turns := harness.CountTurns(func() { _, err = p.send(state.CancelNodes{Nodes: []workflow.NodeID{"b"}}) })
	require.NoError(t, err)
	require.True(t, p.state.Status.Final())
	require.Less(t, turns, int64(n))
}

// TestSynchronizeInManyBranches: a step of a run in which a join: synchronize waits in each of very many branches looks at
// those branches alone in which it changes something.
func TestSynchronizeInManyBranches(t *testing.T) {
	const n = 2_000
	p := newPlayer(t, compile(t, `
name: x
start: s
nodes: [{id: s}, {id: a}, {id: x, task: work}, {id: y, task: work}, {id: j, join: synchronize}, {id: z}]
transitions:
  - {from: s, to: a, foreach: {collection: input.l}, siblingGroup: g}
  - {from: a, to: x}
  - {from: a, to: y}
  - {from: x, to: j}
  - {from: y, to: j}
  - {from: j, to: z, synchronization: {siblingGroup: g}}
`))
	p.quick = true
	_, err := p.send(state.Start{Input: map[string]any{"l": make([]any, n)}})
	require.NoError(t, err)
	out := p.state.LiveTokens()
	require.Len(t, out, 2*n)
	turns := harness.CountTurns(func() {
		for _, node := range []workflow.NodeID{"x", "y"} {
			for _, id := range out {
				if p.state.Token(id).Node == node {
					require.NoError(t, p.complete(id, nil))
				}
			}
		}
	})
	require.Equal(t, workflow.RunCompleted, p.state.Status)
	require.Less(t, turns, int64(n))
}
