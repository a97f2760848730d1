package planning_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/planning"
)

// costly gives definitions whose conditions, mappings and loop counts cost more
// for each decision than a plan may.
func costly() map[string]string {
	const head = `
name: x
start: a
limits: {celCost: 100000}
state: {initial: {l: %s, s: %s}}
nodes: [{id: a%s}, {id: z}]
transitions:
  - {from: a, to: a, loop: {maxIterations: 1000000}%s}
  - {from: a, to: z, priority: 1}
`
	l := "[" + strings.Repeat("1,", 39) + "1]"
	s := strings.Repeat("x", 100_000)
	heavy := "state.l.all(a, state.l.all(b, state.l.exists(c, c + a + b > 0)))"
	many := "name: x\nstart: a0\nlimits: {celCost: 100000}\nnodes: [{id: z}"
	for i := range 1000 {
		many += fmt.Sprintf(", {id: a%d}", i)
	}
	many += "]\ntransitions:\n"
	for i := range 999 {
		many += fmt.Sprintf("  - {from: a%d, to: a%[1]d, loop: {maxIterations: 1}}\n  - {from: a%[1]d, to: a%d, priority: 1}\n", i, i+1)
	}
	many += "  - {from: a999, to: a999, loop: {maxIterations: 1000000}}\n  - {from: a999, to: z, priority: 1}\n"
	return map[string]string{
		"conditions":     fmt.Sprintf(head, l, "x", "", ", condition: '"+heavy+"'"),
		"mappings":       fmt.Sprintf(head, l, "x", ", output: {state.n: '"+heavy+"'}", ""),
		"large results":  fmt.Sprintf(head, l, s, ", output: {state.n: '[state.s, state.s, state.s, state.s]'}", ""),
		"kept in a list": fmt.Sprintf(head, l, s, ", output: {'state.n[]': '{\"n\": state.s}'}", ""),
		"loop counts":    many,
		"a failing condition": strings.Replace(fmt.Sprintf(head, l, "x", ", output: {state.n: '"+heavy+" ? 1 : 1/0'}, cancels: [z]", ""),
			"{from: a, to: z, priority: 1}", "{from: a, to: z, condition: '"+heavy+" && 1/0 == 1', priority: 0}", 1) +
			"  - {id: again, from: a, to: a, outcome: error, loop: {maxIterations: 1000000}}\n",
	}
}

// TestPlansAreBoundedInCost: what the expressions of one message cost together
// is bounded, whatever each of them does; the run then fails.
func TestPlansAreBoundedInCost(t *testing.T) {
	for name, yaml := range costly() {
		t.Run(name, func(t *testing.T) {
			found := newPlayer(t, compile(t, yaml)).state
			begin := time.Now()
			plan, err := planning.Step(found, state.Start{}, dawn)
			require.NoError(t, err)
			require.Len(t, plan.Decisions, 2)
			require.Contains(t, plan.Decisions[1].String(), "limit planCost: more than ")
			require.Less(t, time.Since(begin), time.Minute)
			t.Log(time.Since(begin))
		})
	}
}

// TestOneCostlyNode: a node with very many transitions, where each costs nearly
// all that one expression may, does not evaluate them all.
func TestOneCostlyNode(t *testing.T) {
	yaml := "name: x\nstart: a\nlimits: {celCost: 100000}\nstate: {initial: {l: [" + strings.Repeat("1,", 39) + "1]}}\nnodes: [{id: a}, {id: z}]\ntransitions:\n"
	for i := range 500 {
		yaml += fmt.Sprintf("  - {id: t%d, from: a, to: z, condition: 'state.l.all(a, state.l.all(b, state.l.exists(c, c + a + b > 0))) && %d < 0'}\n", i, i)
	}
	graph := compile(t, yaml)
	begin := time.Now()
	plan, err := planning.Step(newPlayer(t, graph).state, state.Start{}, dawn)
	require.NoError(t, err)
	require.Contains(t, plan.Decisions[len(plan.Decisions)-1].String(), "limit planCost: more than 10")
	require.Less(t, time.Since(begin), time.Minute)
	t.Log(time.Since(begin))
}

// TestLargeFanOutsAreAffordable: 100,000 branches, each with a condition and an
// input of six fields of its own, are within what a plan may cost,
// even where one expression may cost little.
func TestLargeFanOutsAreAffordable(t *testing.T) {
	n := harness.Figure(10_000, 100_000, 100_000)
	items := make([]any, n)
	for i := range items {
		items[i] = int64(i % 10)
	}
	p := newPlayer(t, compile(t, `
name: x
start: a
limits: {celCost: 10000}
nodes:
  - {id: a}
  - {id: b}
  - {id: c, task: work, input: {n: item, k: item - 7, text: "'item ' + string(index)", of: branch.total, at: now, run: run.id}}
  - {id: z}
transitions:
  - {from: a, to: b, foreach: {collection: input.items}, siblingGroup: g}
  - {from: b, to: c, condition: "item >= 0"}
  - {from: c, to: z, synchronization: {siblingGroup: g}}
`))
	p.quick = true
	plan, err := p.send(state.Start{Input: map[string]any{"items": items}})
	require.NoError(t, err)
	require.Greater(t, len(plan.Decisions), 3*n)
}

// TestAppendAtTheEndOfTheBudget: a plan whose cost is spent by what an output mapping appends fails the run, whatever
// schema the list has.
func TestAppendAtTheEndOfTheBudget(t *testing.T) {
	p := newPlayer(t, compile(t, `
name: x
start: a
limits: {celCost: 1000}
state: {initial: {log: []}, schema: {properties: {log: {type: array, items: {type: string}}}}}
nodes: [{id: a, output: {'state.log[]': input.text}}]
`))
	plan, err := p.send(state.Start{Input: map[string]any{"text": strings.Repeat("x", 200_000)}})
	require.NoError(t, err)
	require.Contains(t, text(plan), "limit planCost: more than ")
}
