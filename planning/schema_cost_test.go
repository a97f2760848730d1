package planning_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// nested is a schema that applies itself twice to every item, which doubles with each list.
const nested = "{allOf: [{items: {$ref: '#'}}, {items: {$ref: '#'}}]}"

func deepLists(n int) any {
	var v any = int64(1)
	for range n {
		v = []any{v}
	}
	return v
}

func TestAResultThatCostsTooMuchToCheckFailsTheRun(t *testing.T) {
	p := newPlayer(t, compile(t, "name: x\nstart: a\nnodes: [{id: a, task: t, outputSchema: "+nested+"}]\n"))
	_, err := p.send(state.Start{})
	require.NoError(t, err)
	plan, err := planning.Step(p.state, state.TaskCompleted{Token: 1, Attempt: 1, Epoch: p.state.Epoch, Output: deepLists(100)}, dawn)
	require.NoError(t, err)
	require.Len(t, plan.Decisions, 1)
	require.Contains(t, plan.Decisions[0].String(), "limit_exceeded (limit schemaCost: more than 10000000 units")
}

func TestACallersValueThatCostsTooMuchToCheckIsRefused(t *testing.T) {
	p := newPlayer(t, compile(t, "name: x\nstart: a\ninput: {schema: {properties: {v: {$ref: '#/$defs/n'}}, $defs: {n: "+strings.ReplaceAll(nested, "#", "#/$defs/n")+"}}}\nnodes: [{id: a, task: t}]\n"))
	var limit *workflow.LimitError
	_, err := planning.Step(p.state, state.Start{Input: map[string]any{"v": deepLists(100)}}, dawn)
	require.ErrorAs(t, err, &limit)
	require.Equal(t, limits.SchemaCost, limit.Limit)

	p = newPlayer(t, compile(t, "name: x\nstart: a\nnodes: [{id: a, task: t, outputSchema: "+nested+"}]\n"))
	_, err = p.send(state.Start{})
	require.NoError(t, err)
	_, err = planning.Step(p.state, state.Skip{Node: "a", Output: deepLists(100)}, dawn)
	require.ErrorAs(t, err, &limit)
	require.Equal(t, limits.SchemaCost, limit.Limit)
}

// One message may come to any number of checks: they have one bound together.
func TestTheChecksOfOneMessageAreBoundedTogether(t *testing.T) {
	p := newPlayer(t, compile(t, `
name: x
start: a
state:
  initial: {big: {list: [`+strings.Repeat("1,", 49_999)+`1]}}
  schema: {properties: {big: {properties: {list: {items: {type: integer}}}}}}
nodes:
  - {id: a, output: {state.big.n: '1'}}
transitions:
  - {from: a, to: a, loop: {maxIterations: 100}}
`))
	plan, err := planning.Step(p.state, state.Start{}, dawn)
	require.NoError(t, err)
	require.Contains(t, plan.Decisions[len(plan.Decisions)-1].String(), "limit schemaCost")
}

// A parent records why its child was refused: in one place, as it always was. A large input is told of one place as well.
func TestPlacesOfARefusedInput(t *testing.T) {
	p := newPlayer(t, compile(t, "name: x\nstart: a\ninput: {schema: {additionalProperties: {type: integer}}}\nnodes: [{id: a, task: t}]\n"))
	large := map[string]any{"a": "one", "b": "two"}
	for i := range 50_000 {
		large[strconv.Itoa(i)] = int64(i)
	}
	for _, tt := range []struct {
		start state.Start
		more  int
	}{
		{state.Start{Input: map[string]any{"a": "one", "b": "two"}}, 1},
		{state.Start{Input: map[string]any{"a": "one", "b": "two"}, Parent: &workflow.Parent{Run: "p", Root: "p", Token: 1, Attempt: 1, Depth: 1}}, 0},
		{state.Start{Input: large}, 0},
	} {
		_, err := planning.Step(p.state, tt.start, dawn)
		var refused *workflow.InputError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "/a", refused.Path)
		require.Len(t, refused.More, tt.more)
		require.Zero(t, refused.Beyond)
		if tt.more == 0 {
			require.EqualError(t, err, `input does not fit the schema: at "/a": got string, want integer`)
		}
	}
}
