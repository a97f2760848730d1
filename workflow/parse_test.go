package workflow_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// TestGoodDefinitions: what is in testdata/good is sound, and is the same after
// a round trip.
func TestGoodDefinitions(t *testing.T) {
	for file, text := range workflow.GoodDefinitions(t) {
		t.Run(file, func(t *testing.T) {
			d, err := workflow.Parse([]byte(text))
			require.NoError(t, err)
			require.Empty(t, d.Check())
			workflow.RequireRoundTrip(t, d)
			if strings.HasSuffix(file, ".json") {
				requireSame(t, d, text)
			}
		})
	}
}

// requireSame: the definition that a text says has the hash of d.
func requireSame(t *testing.T, d *workflow.Definition, text string) {
	again, err := workflow.Parse([]byte(text))
	require.NoError(t, err)
	require.Equal(t, workflow.HashOfDefinition(t, d), workflow.HashOfDefinition(t, again))
}

func TestSameInBothFormats(t *testing.T) {
	j, err := workflow.ParseJSON([]byte(workflow.ReadFile(t, "testdata/good/minimal.json")))
	require.NoError(t, err)
	y, err := workflow.ParseYAML([]byte(workflow.ReadFile(t, "testdata/good/minimal.yaml")))
	require.NoError(t, err)
	require.Equal(t, workflow.HashOfDefinition(t, j), workflow.HashOfDefinition(t, y))
}

// TestDefaultsDoNotChangeTheHash: written out or not, and in any order.
func TestDefaultsDoNotChangeTheHash(t *testing.T) {
	short, err := workflow.ParseYAML([]byte(`
name: x
start: a
nodes:
  - {id: a, task: t, retry: {maxAttempts: 3}}
  - {id: b, task: t, approval: {}}
transitions: [{from: a, to: b, foreach: {collection: input.x}, siblingGroup: g}, {from: b, to: a, synchronization: {siblingGroup: g}}]
`))
	require.NoError(t, err)
	long, err := workflow.ParseYAML([]byte(`
transitions:
  - {to: b, from: a, id: a->b, priority: 0, outcome: success, open: false, foreach: {collection: input.x}, siblingGroup: g, errors: []}
  - {from: b, to: a, id: b->a, synchronization: {siblingGroup: g, strategy: all, remaining: cancel, onTimeout: fail, onShortfall: fail, timeout: 0s}}
nodes:
  - {id: a, task: t, retry: {maxAttempts: 3, initialInterval: 1000ms, backoffCoefficient: 2.0, jitter: 0, exhausted: fail, nonRetryable: []}, priority: 0, input: {}, output: {}, cancels: []}
  - {id: b, task: t, approval: {quorum: 1, rejectQuorum: 1, onTimeout: fail, message: ""}, timeout: 0s}
start: a
mode: graph
version: 1
name: x
input: {}
state: {initial: {}}
limits: {}
timeout: 0s
`))
	require.NoError(t, err)
	require.Equal(t, workflow.HashOfDefinition(t, short), workflow.HashOfDefinition(t, long))
	other := *short
	other.Version = 2
	require.NotEqual(t, workflow.HashOfDefinition(t, short), workflow.HashOfDefinition(t, &other))
}

// TestEmptyOutputMapping differs from none, which returns the output section.
func TestEmptyOutputMapping(t *testing.T) {
	d := workflow.Definition{Name: "x", Output: workflow.OutputSpec{Mapping: map[string]string{}}}
	data, err := json.Marshal(&d)
	require.NoError(t, err)
	require.JSONEq(t, `{"name": "x", "output": {"mapping": {}}}`, string(data))
	var again workflow.Definition
	require.NoError(t, json.Unmarshal(data, &again))
	require.NotNil(t, again.Output.Mapping)
}

func TestDefaultTransitionIDs(t *testing.T) {
	d := &workflow.Definition{Transitions: []workflow.Transition{
		{From: "a", To: "b"}, {From: "a", To: "b"}, {ID: "a->b#3", From: "b", To: "a"}, {From: "a", To: "b"}, {ID: "b->a", From: "a", To: "b"}, {From: "b", To: "a"},
	}}
	var ids []workflow.TransitionID
	for _, tr := range d.Completed().Transitions {
		ids = append(ids, tr.ID)
	}
	require.Equal(t, []workflow.TransitionID{"a->b", "a->b#2", "a->b#3", "a->b#4", "b->a", "b->a#2"}, ids)
	require.Empty(t, d.Transitions[0].ID, "the caller's definition is not modified")
}

func TestCompileCompletes(t *testing.T) {
	d, err := workflow.Parse([]byte(workflow.ReadFile(t, "testdata/good/quotes.yaml")))
	require.NoError(t, err)
	before, err := d.MarshalJSON()
	require.NoError(t, err)
	g, err := compiled.Compile(workflow.Bounds{}, d)
	require.NoError(t, err)
	require.Equal(t, workflow.HashOfDefinition(t, d), g.Hash)
	require.NotNil(t, g.Transition("plan->quote"))
	require.NotNil(t, g.Transition("again"))
	require.Equal(t, 10, g.Limits.Loop)
	after, err := d.MarshalJSON()
	require.NoError(t, err)
	require.Equal(t, before, after, "the caller's definition is not modified")
	minimal, err := workflow.Compile(&workflow.Definition{Name: "x", Start: "a", Nodes: []workflow.Node{{ID: "a"}}})
	require.NoError(t, err)
	require.Equal(t, 1, minimal.Definition.Version)
}

func TestTooLarge(t *testing.T) {
	_, err := workflow.ParseJSON(make([]byte, limits.MaxDefinitionBytes+1))
	var e *workflow.DefinitionError
	require.True(t, errors.As(err, &e))
	require.Equal(t, problem.TooLarge, e.Problems[0].Code)
}

// Too many nodes and too many transitions are told together.
func TestTooManyOfBoth(t *testing.T) {
	harness.RequireLevel(t, harness.Gate, "it takes seconds")
	d := largeDefinition(limits.MaxNodes + 1)
	d.Transitions = d.Transitions[:limits.MaxTransitions+1]
	var codes []string
	for _, p := range d.Check() {
		codes = append(codes, p.Code+" "+p.Field)
	}
	require.Contains(t, codes, "too_large nodes")
	require.Contains(t, codes, "too_large transitions")
}

// TestDeepText: nesting is bounded in both formats, and a valid definition of
// the largest depth is written as well.
func TestDeepText(t *testing.T) {
	nested := func(n int) []byte {
		return []byte(`{"name": "x", "state": {"initial": {"a": ` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}}}`)
	}
	for _, parse := range []func([]byte) (*workflow.Definition, error){workflow.ParseJSON, workflow.ParseYAML} {
		d, err := parse(nested(125))
		require.NoError(t, err)
		workflow.RequireRoundTrip(t, d)
		_, err = parse(nested(126))
		require.ErrorContains(t, err, "nested more than 128 deep")
		_, err = parse(nested(1_000_000))
		require.Error(t, err)
	}
}

func TestProblemsOfGoDefinitions(t *testing.T) {
	nan := 0.0
	nan /= nan
	loop := []any{nil}
	loop[0] = loop
	d := &workflow.Definition{
		Name: "x\xff", Version: -1, Mode: "tree", Start: "a", Timeout: -1, Limits: workflow.Limits{Tokens: -1},
		Input: workflow.InputSpec{Schema: map[string]any{"type": make(chan int)}},
		State: workflow.StateSpec{Initial: map[string]any{"x": loop}},
		Nodes: []workflow.Node{
			{ID: "a", Wait: &workflow.WaitSpec{Any: []workflow.WaitSpec{{Any: []workflow.WaitSpec{}}}}, Unmatched: "explode"},
			{ID: "b", Approval: &workflow.ApprovalSpec{Quorum: -1, RejectQuorum: -1, OnTimeout: "maybe"}, Join: workflow.JoinMOfN(0)},
			{ID: "c", Task: "t", Retry: &workflow.RetrySpec{MaxAttempts: -1, Jitter: nan, BackoffCoefficient: nan, MaxInterval: -1, Exhausted: "x", NonRetryable: []string{""}}},
			{ID: workflow.NodeID(strings.Repeat("x", limits.MaxName+1)), End: &workflow.EndSpec{Message: "m"}},
		},
		Transitions: []workflow.Transition{
			{From: "a", To: "b", Outcome: "late", SpawnCount: -1, MaxConcurrency: -1, Loop: &workflow.Loop{}},
			{From: "a", To: "c", Synchronization: &workflow.Synchronization{
				SiblingGroup: "g", Strategy: workflow.MOfN(0), Remaining: "x", OnTimeout: "x", OnShortfall: "x", Timeout: -1,
				Tolerate: workflow.TolerateFailures(-1), Merge: &workflow.Merge{Target: "state.x", Strategy: "x"},
			}},
			{From: "b", To: "c", Synchronization: &workflow.Synchronization{SiblingGroup: "h", Tolerate: workflow.TolerateRatio(nan)}},
		},
	}
	var found []string
	for _, p := range d.Check() {
		found = append(found, string(p.Node)+string(p.Transition)+" "+p.Field+" "+p.Code)
	}
	for _, want := range []string{
		" name invalid_name", " version out_of_range", " mode unknown_value", " timeout out_of_range", " limits.tokens out_of_range",
		" input.schema invalid_value", " state.initial invalid_value", "a wait.any[0].any invalid_field", "a unmatched unknown_value",
		"b approval.quorum out_of_range", "b approval.rejectQuorum out_of_range", "b approval.onTimeout unknown_value",
		"c retry.maxAttempts out_of_range", "c retry.jitter out_of_range", "c retry.backoffCoefficient out_of_range", "c retry.maxInterval out_of_range",
		"c retry.exhausted unknown_value", "c retry.nonRetryable[0] missing",
		"a->b outcome unknown_value", "a->b spawnCount out_of_range", "a->b maxConcurrency out_of_range", "a->b loop.maxIterations out_of_range",
		"a->c synchronization.strategy out_of_range", "a->c synchronization.remaining unknown_value", "a->c synchronization.onTimeout unknown_value",
		"a->c synchronization.onShortfall unknown_value", "a->c synchronization.timeout out_of_range",
		"a->c synchronization.tolerate.failures out_of_range", "b->c synchronization.tolerate.failureRatio out_of_range",
		"a->c synchronization.merge.strategy unknown_value",
	} {
		require.True(t, slices.Contains(found, want), "%s is not in %q", want, found)
	}
	_, err := d.Hash()
	require.Error(t, err)
	_, err = d.MarshalJSON()
	require.Error(t, err)
}

func TestSchemaOfGoNumbers(t *testing.T) {
	d := &workflow.Definition{Name: "x", Start: "a", Nodes: []workflow.Node{{ID: "a"}},
		Input: workflow.InputSpec{Schema: map[string]any{"minimum": 1, "required": []string{"a"}, "multipleOf": float32(0.5)}}}
	g, err := compiled.Compile(workflow.Bounds{}, d)
	require.NoError(t, err)
	require.Error(t, g.InputSchema.Check(int64(0)))
	require.NoError(t, g.InputSchema.Check(1.5))
	workflow.RequireRoundTrip(t, d)
}

func TestTextThatIsNotUTF8(t *testing.T) {
	for _, parse := range []func([]byte) (*workflow.Definition, error){workflow.ParseJSON, workflow.ParseYAML} {
		_, err := parse([]byte("{\"name\": \"x\",\n \"start\": \"\xff\"}"))
		require.ErrorContains(t, err, "line ")
	}
	_, err := workflow.ParseJSON([]byte("{\"name\": \"x\",\n \"start\": \"\xff\"}"))
	require.ErrorContains(t, err, "line 2:12: the text is not UTF-8")
}

// TestColumnsAreCodePoints in both formats.
func TestColumnsAreCodePoints(t *testing.T) {
	const text = `{"name": "日本", "é": 1}`
	_, j := workflow.ParseJSON([]byte(text))
	_, y := workflow.ParseYAML([]byte(text))
	require.ErrorContains(t, j, "line 1:16: é: there is no such field")
	require.Equal(t, j.Error(), y.Error())
}

func TestUnmarshalJSONRefuses(t *testing.T) {
	d := workflow.Definition{Name: "before"}
	require.Error(t, json.Unmarshal([]byte(`{"nam": "x"}`), &d))
	require.Equal(t, "before", d.Name)
}

func TestLongErrorsAreCut(t *testing.T) {
	d := &workflow.Definition{Name: "x", Start: "a", Nodes: []workflow.Node{{ID: "a"}}}
	for range 2 * workflow.MaxListed {
		d.Transitions = append(d.Transitions, workflow.Transition{From: "a", To: "b"})
	}
	var e *workflow.DefinitionError
	require.True(t, errors.As(d.Validate(), &e))
	require.Len(t, e.Problems, 2*workflow.MaxListed)
	require.Contains(t, e.Error(), "and 100 more")
}

// A definition of the program that does not parse is a mistake of the program.
func TestMustParse(t *testing.T) {
	require.Equal(t, "d", workflow.MustParse([]byte("name: d\nstart: a\nnodes: [{id: a}]\n")).Name)
	require.PanicsWithValue(t, "workflow: parse a definition of the program: invalid definition: line 1:1: nme: there is no such field; did you mean name? (unknown_field)", func() {
		workflow.MustParse([]byte("nme: d"))
	})
}
