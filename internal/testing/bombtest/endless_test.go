package bombtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// endless are definitions that go on for ever by themselves, with how they end.
var endless = map[string]struct{ says, yaml string }{
	"gateways": {"limit plan", `
nodes: [{id: a}, {id: z}]
transitions:
  - {from: a, to: a, loop: {maxIterations: 1000000}}
  - {from: a, to: z, priority: 1}`},
	"two that call each other": {"limit plan", `
nodes: [{id: a}, {id: b}, {id: z}]
transitions:
  - {from: a, to: b, loop: {maxIterations: 1000000}}
  - {from: b, to: a, loop: {maxIterations: 1000000}}
  - {from: a, to: z, priority: 1}`},
	"timers that are due at once": {"limit tokens", `
limits: {tokens: 200}
nodes: [{id: a, wait: {for: 1ms}}, {id: z}]
transitions:
  - {from: a, to: a, loop: {maxIterations: 1000000}}
  - {from: a, to: z, priority: 1}`},
	"timers in the past": {"limit plan", `
nodes: [{id: a, wait: {until: "'1970-01-01T00:00:00Z'"}}, {id: z}]
transitions:
  - {from: a, to: a, loop: {maxIterations: 1000000}}
  - {from: a, to: z, priority: 1}`},
	"tasks": {"limit tokens", `
limits: {tokens: 200}
nodes: [{id: a, task: echo}, {id: z}]
transitions:
  - {from: a, to: a, loop: {maxIterations: 1000000}}
  - {from: a, to: z, priority: 1}`},
	"failures that are caught": {"limit plan", `
nodes: [{id: a, output: {state.x: 1/0}}, {id: z}]
transitions:
  - {from: a, to: a, outcome: error, loop: {maxIterations: 1000000}}
  - {from: a, to: z}`},
	"two loops inside each other": {"limit plan", `
nodes: [{id: a}, {id: b}, {id: z}]
transitions:
  - {from: a, to: b}
  - {id: inner, from: b, to: b, loop: {maxIterations: 1000000}}
  - {id: outer, from: b, to: a, loop: {maxIterations: 1000000}, priority: 1}
  - {from: b, to: z, priority: 2}`},
	"tokens that double": {"limit liveTokens", `
limits: {liveTokens: 5000}
nodes: [{id: a}, {id: b}, {id: z}]
transitions:
  - {id: one, from: a, to: b, loop: {maxIterations: 1000000}}
  - {id: two, from: a, to: b, loop: {maxIterations: 1000000}}
  - {id: back, from: b, to: a, loop: {maxIterations: 1000000}}
  - {from: b, to: z, priority: 1}`},
	"branches that fan out again": {"limit plan", `
nodes: [{id: a}, {id: z}]
transitions:
  - {from: a, to: a, spawnCount: 2, loop: {maxIterations: 1000000}}
  - {from: a, to: z, priority: 1}`},
	"costly conditions": {"limit planCost", `
limits: {celCost: 100000}
state: {initial: {l: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}}
nodes: [{id: a}, {id: z}]
transitions:
  - {from: a, to: a, loop: {maxIterations: 1000000}, condition: "state.l.all(a, state.l.all(b, state.l.all(c, true)))"}
  - {from: a, to: z, priority: 1}`},
	"state that grows": {"limit", `
limits: {celCost: 100000}
state: {initial: {s: xxxxxxxxxxxxxxxx}}
nodes: [{id: a, output: {state.s: state.s + state.s}}, {id: z}]
transitions:
  - {from: a, to: a, loop: {maxIterations: 1000000}}
  - {from: a, to: z, priority: 1}`},
	"joins that fire again and again": {"limit plan", `
nodes: [{id: a}, {id: b}, {id: c}, {id: z}]
transitions:
  - {from: a, to: b, spawnCount: 3, siblingGroup: g}
  - {from: b, to: c, synchronization: {siblingGroup: g, merge: {strategy: collect, target: state.x}}}
  - {from: c, to: a, loop: {maxIterations: 1000000}}
  - {from: c, to: z, priority: 1}`},
}

// slowest is the one of them that takes several seconds: 2^17 groups.
const slowest = "branches that fan out again"

// TestEndless: what would go on for ever ends with a bound, whatever turns.
func TestEndless(t *testing.T) {
	harness.InTurn(t, 4)
	w, c, long := open(t), tally{}, 0
	for _, name := range slices.Sorted(maps.Keys(endless)) {
		b := endless[name]
		if most := harness.Figure(1, 4, 100); b.says == "limit plan" {
			if long++; long > most || name == slowest && harness.CurrentLevel() < harness.Release {
				continue // each plans 500,000 decisions before it gives up
			}
		}
		c.tried++
		begin := time.Now()
		out := w.end(define(t, "name: x\nstart: a%s", b.yaml), nil, nil)
		t.Logf("%s: %v", name, time.Since(begin).Round(time.Millisecond))
		require.Equal(t, workflow.RunFailed, out.Status, name)
		require.Equal(t, workflow.CodeLimit, out.Failure.Code, name)
		require.Contains(t, out.Failure.Message, b.says, name)
		c.refused++
	}
	c.report(t, "endless definitions")
}

// TestRunsThatSignalEachOther: two runs whose tasks signal the other, without
// end, end by their tokens, and other runs begin and end meanwhile: one in each
// turn of the first.
func TestRunsThatSignalEachOther(t *testing.T) {
	w := open(t)
	d := define(t, `
name: x
start: a
limits: {tokens: 400}
nodes: [{id: a, wait: {event: ball}}, {id: b, task: give}, {id: z}]
transitions:
  - {from: a, to: b}
  - {from: b, to: a, loop: {maxIterations: 1000000}}
  - {from: b, to: z, priority: 1}`)
	ids := []workflow.RunID{"ping", "pong"}
	for i, id := range ids {
		w.gives[id] = w.signalling(ids[1-i])
		require.NoError(t, w.Start(t.Context(), workflow.Run{ID: id, Definition: d}, nil))
	}
	echo, others := define(t, "name: other\nstart: a\nnodes: [{id: a, task: echo}]"), 0
	signal := w.signalling("pong")
	w.mu.Lock()
	w.gives["ping"] = func(ctx context.Context, task pawl.Task) (any, error) {
		others++
		out, err := w.Run(ctx, workflow.Run{ID: workflow.RunID(fmt.Sprint("other-", others)), Definition: echo}, nil)
		if err := errors.Join(err, out.Err()); err != nil {
			t.Error(err)
		}
		return signal(ctx, task)
	}
	w.mu.Unlock()
	require.NoError(t, w.Signal(t.Context(), "ping", workflow.Signal{Name: "ball"}))
	first := w.outcome("ping") // it makes its tokens first, and the other waits for its ball then
	require.Contains(t, first.Failure.Message, "limit tokens")
	require.NoError(t, w.Cancel(t.Context(), "pong", ""))
	w.outcome("pong")
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Greater(t, others, 50, "runs that ended meanwhile")
}

// TestHugeForeach: a list beyond the limit fails before the first token is made,
// be it one more, a million, or a list of lists.
func TestHugeForeach(t *testing.T) {
	w, c := open(t), tally{}
	for name, b := range map[string]struct{ says, yaml string }{
		"one more":         {"limit foreach", `transitions: [{from: a, to: b, foreach: {collection: "[0] + input.l"}}]`},
		"a million":        {"limit_exceeded", `transitions: [{from: a, to: b, foreach: {collection: "lists.range(1000000)"}}]`},
		"a million copies": {"limit_exceeded", `transitions: [{from: a, to: b, foreach: {collection: "input.l.map(x, input.l)"}}]`},
		"in one group":     {"limit liveTokens", `transitions: [{id: r, from: a, to: b, foreach: {collection: input.l}, siblingGroup: g}, {id: s, from: a, to: b, foreach: {collection: input.l}, siblingGroup: g}, {id: q, from: a, to: b, spawnCount: 10, siblingGroup: g}]`},
	} {
		c.tried++
		id := w.begin(define(t, "name: x\nstart: a\nnodes: [{id: a}, {id: b, task: echo}]\n%s", b.yaml), items(100_000))
		out := w.outcome(id)
		require.Equal(t, workflow.CodeLimit, out.Failure.Code, name)
		require.Contains(t, out.Failure.Code+" "+out.Failure.Message, b.says, name)
		snap, err := w.Inspect(t.Context(), id)
		require.NoError(t, err)
		require.LessOrEqual(t, len(snap.Tokens), 1, name)
		c.refused++
	}
	// 1,000 by 1,000 within each other: the plan is given up before anything of it
	// is committed.
	c.tried++
	id := w.begin(define(t, `
name: x
start: a
nodes: [{id: a}, {id: b}, {id: c, task: echo}]
transitions:
  - {from: a, to: b, foreach: {collection: input.l}}
  - {from: b, to: c, foreach: {collection: input.l}}`), items(1000))
	out := w.outcome(id)
	require.Contains(t, out.Failure.Message, "limit")
	snap, err := w.Inspect(t.Context(), id)
	require.NoError(t, err)
	require.Empty(t, snap.Tokens)
	c.refused++
	c.report(t, "huge fan-outs")
}

// recursions are definitions that call themselves, or each other, by their names,
// with how many runs there may be at most.
func recursions() map[string][]string {
	limits := "limits: {subworkflowDepth: %d, descendants: %d}"
	self := "name: self\nstart: a\n" + fmt.Sprintf(limits, 6, 100) + "\nnodes: [{id: a, subworkflow: {name: self}}]"
	mutual := "name: %s\nstart: a\n" + fmt.Sprintf(limits, 7, 100) + "\nnodes: [{id: a, subworkflow: {name: %s}}]"
	wide := "name: wide\nstart: a\n" + fmt.Sprintf(limits, 8, 60) + "\nnodes: [{id: a}, {id: b, subworkflow: {name: wide}}]\ntransitions: [{from: a, to: b, spawnCount: 3}]"
	stubborn := "name: stubborn\nstart: a\n" + fmt.Sprintf(limits, 4, 40) + "\nnodes: [{id: a}, {id: b, subworkflow: {name: stubborn}}, {id: c, subworkflow: {name: stubborn}}]\ntransitions: [{from: a, to: b, spawnCount: 2}, {from: b, to: c, outcome: always}]"
	return map[string][]string{
		"self":     {self},
		"mutual":   {fmt.Sprintf(mutual, "mutual", "other"), fmt.Sprintf(mutual, "other", "mutual")},
		"wide":     {wide},
		"stubborn": {stubborn},
	}
}

// TestRecursions: a run that starts itself again and again stops at the limits of
// depth and of descendants; the root has the cause, and nothing is left alive.
func TestRecursions(t *testing.T) {
	c := tally{}
	for name, yamls := range recursions() {
		w := open(t)
		for _, yaml := range yamls {
			_, err := w.Publish(t.Context(), define(t, "%s", yaml))
			require.NoError(t, err)
		}
		require.NoError(t, w.Start(t.Context(), workflow.Run{ID: "root", Workflow: name}, nil))
		out := w.outcome("root")
		require.Equal(t, workflow.RunFailed, out.Status, name)
		require.Equal(t, workflow.CodeLimit, out.Failure.Code, name)
		require.Regexp(t, "limit (subworkflowDepth|descendants)", out.Failure.Message, name)
		for s, err := range w.Runs(t.Context(), pawl.RunFilter{}) {
			require.NoError(t, err)
			require.True(t, w.outcome(s.Run).Status.Final(), "%s", s.Run)
			require.LessOrEqual(t, strings.Count(string(s.Run), "/"), 8)
			c.tried++
		}
		c.refused++
	}
	require.Greater(t, c.tried, 20)
	c.report(t, "runs of recursions")
}
