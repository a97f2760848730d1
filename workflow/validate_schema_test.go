package workflow_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// TestSchemaOfOddProperties: the parts of state.schema are found whatever the
// properties are called.
func TestSchemaOfOddProperties(t *testing.T) {
	names := []string{"any key", "100%", "%41", "a/b", "a~b", "~1", "a#b", "a?b", "é", "", "\"", "+", "a\nb"}
	properties := map[string]any{}
	for i, name := range names {
		properties[name] = map[string]any{"type": "array", "items": map[string]any{"const": int64(i)}}
	}
	d := &workflow.Definition{Name: "x", Start: "a", Nodes: []workflow.Node{{ID: "a"}}, State: workflow.StateSpec{Schema: map[string]any{"properties": properties}}}
	g, err := compiled.Compile(workflow.Bounds{}, d)
	require.NoError(t, err)
	for i, name := range names {
		require.NoError(t, g.Property(name).Check([]any{int64(i)}), "%q", name)
		require.Error(t, g.Property(name).Check([]any{int64(-1)}), "%q", name)
		require.NoError(t, g.Element(name).Check(int64(i)), "%q", name)
		require.Error(t, g.Element(name).Check(int64(-1)), "%q", name)
	}
	d.State.Initial = map[string]any{"a/b": []any{int64(-1)}}
	require.ErrorContains(t, d.Validate(), `state.initial.a/b: it does not fit state.schema`)
}

func TestSchemaThatGoCannotSay(t *testing.T) {
	d := &workflow.Definition{Name: "x", Start: "a", Nodes: []workflow.Node{{ID: "a"}}, State: workflow.StateSpec{
		Schema:  map[string]any{"properties": map[string]any{"a": func() {}}},
		Initial: map[string]any{"a": int64(1)},
	}}
	require.ErrorContains(t, d.Validate(), "invalid_value")
}

// TestCheckOfTheLargestDefinition has as many nodes as a definition may have. It bounds the time by far more than it takes, so
// that only a check which is not linear fails.
func TestCheckOfTheLargestDefinition(t *testing.T) {
	harness.MeasuresTime(t)
	d := largeDefinition(limits.MaxNodes)
	start := time.Now()
	_, err := compiled.Boundless().Compile(d) // its names alone are more than the default of bytes
	require.NoError(t, err)
	require.Less(t, time.Since(start), time.Minute)
}

// TestCheckOfHostileDefinitions: cases that are quadratic when done naively.
func TestCheckOfHostileDefinitions(t *testing.T) {
	const n = 20_000
	output, initial := map[string]string{}, map[string]any{}
	properties := map[string]any{}
	for i := range n {
		output[fmt.Sprintf("state.a%d", i)] = "result"
		initial[fmt.Sprintf("p%d", i)] = int64(i)
	}
	for i := range n / 20 {
		properties[fmt.Sprintf("p%d", i)] = map[string]any{"type": "integer"}
	}
	d := &workflow.Definition{
		Name: "x", Start: "a", State: workflow.StateSpec{Schema: map[string]any{"properties": properties}, Initial: initial},
		Nodes: []workflow.Node{{ID: "a", Task: "t", Output: output}, {ID: "b", Task: "t"}},
	}
	for i := range n {
		d.Transitions = append(d.Transitions,
			workflow.Transition{From: "a", To: "b", SiblingGroup: fmt.Sprintf("g%d", i)},
			workflow.Transition{From: "b", To: "b", Priority: i, Condition: "result", Synchronization: &workflow.Synchronization{SiblingGroup: fmt.Sprintf("g%d", i)}})
	}
	start := time.Now()
	_, err := workflow.Bounds{Bytes: 8 << 20}.Compile(d)
	require.NoError(t, err)
	require.Less(t, time.Since(start), time.Minute)
}
