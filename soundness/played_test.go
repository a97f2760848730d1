package soundness_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/soundness"
	"github.com/pawl-run/pawl/workflow"
)

// drawDefinition draws a small definition whose joins, ends and loops need not be sound.
func drawDefinition(t *rapid.T) string {
	n := rapid.IntRange(3, 6).Draw(t, "nodes")
	var nodes, transitions []string
	for i := range n {
		kinds := []string{"", ", task: t", ", task: t, output: {state.a: result}", ", task: t, output: {state.ok: result.ok}", ", wait: {for: 1s}", ", approval: {message: ok}", ", wait: {event: e}"}
		kind := rapid.SampledFrom(kinds).Draw(t, "kind")
		if i > 0 && rapid.IntRange(0, 2).Draw(t, "join") == 0 {
			kind += ", join: " + rapid.SampledFrom([]string{"all", "synchronize"}).Draw(t, "how")
		}
		if i == n-1 && rapid.Bool().Draw(t, "ends") {
			kind = ", end: complete"
		}
		nodes = append(nodes, fmt.Sprintf("  - {id: n%d%s}", i, kind))
	}
	conditions := []string{"", "", "", `, condition: "has(state.ok) && state.ok == true"`, `, condition: "has(state.a) && has(state.a.n) && state.a.n > 1"`, ", outcome: error"}
	for i := range n - 1 {
		for j := range n {
			// Mostly forwards, so that most runs end.
			if j == i || j > i && rapid.IntRange(0, 1).Draw(t, "edge") > 0 || j < i && rapid.IntRange(0, 11).Draw(t, "back") > 0 {
				continue
			}
			transitions = append(transitions, fmt.Sprintf("  - {from: n%d, to: n%d, priority: %d%s}", i, j, rapid.IntRange(0, 1).Draw(t, "tier"), rapid.SampledFrom(conditions).Draw(t, "when")))
		}
	}
	if len(transitions) == 0 {
		transitions = []string{"  - {from: n0, to: n1}"}
	}
	return "name: drawn\nstart: n0\nnodes:\n" + strings.Join(nodes, "\n") + "\ntransitions:\n" + strings.Join(transitions, "\n") + "\n"
}

// TestFindingsArePlayed: every finding of a run comes with a scenario, and the engine plays it to the outcome that the finding tells of,
// whatever the definition.
func TestFindingsArePlayed(t *testing.T) {
	var found []soundness.Finding
	checked := 0
	drawn := rapid.Custom(drawDefinition)
	for seed := range harness.Figure(100, 100, 100) { // known ones, so that the test is the same each time
		d, err := workflow.ParseYAML([]byte(drawn.Example(seed)))
		if err != nil || d.Validate() != nil {
			continue
		}
		checked++
		r, err := soundness.Check(d, soundness.Options{States: 300, StallAfter: true})
		require.NoError(t, err)
		found = append(found, r.Faults()...)
	}
	codes := map[string]int{}
	for _, f := range found {
		codes[f.Code]++
		playScenario(t, f)
	}
	t.Log(checked, codes)
	require.Positive(t, codes[soundness.UnmeetableJoin])
	require.Positive(t, codes[soundness.ShadowedTier])
}
