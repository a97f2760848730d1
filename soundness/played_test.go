package soundness_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/drawn"
	"github.com/pawl-run/pawl/merge"
	"github.com/pawl-run/pawl/soundness"
	"github.com/pawl-run/pawl/workflow"
)

// drawKind draws what a node is.
func drawKind(t *rapid.T) string {
	answered := fmt.Sprintf(", approval: {message: ok, onTimeout: %s}, timeout: 1m", drawValue(t, workflow.Values[workflow.ApprovalTimeout]()))
	tried := fmt.Sprintf(", task: t, unmatched: %s, retry: {maxAttempts: 2, exhausted: %s}", drawValue(t, workflow.Values[workflow.Unmatched]()), drawValue(t, workflow.Values[workflow.Exhausted]()))
	return rapid.SampledFrom([]string{
		answered, tried, ", wait: {any: [{event: e}, {for: 2s}]}",
		"", ", task: t", ", task: t, output: {state.a: result}", ", task: t, output: {state.ok: result.ok}", ", wait: {for: 1s}", ", approval: {message: ok}", ", wait: {event: e}",
		", subworkflow: {name: child}, output: {state.ok: result.ok}", ", subworkflow: {name: other, version: 2}, output: {state.a: result}",
		`, subworkflow: {nameExpr: "has(state.ok) ? 'child' : 'drawn'", names: [child, drawn]}`,
	}).Draw(t, "kind")
}

// drawDefinition draws a small definition whose joins, ends and loops need not be sound.
func drawDefinition(t *rapid.T) string {
	if rapid.IntRange(0, 3).Draw(t, "group") == 0 {
		return drawGroup(t)
	}
	n := rapid.IntRange(3, 6).Draw(t, "nodes")
	var nodes, transitions []string
	for i := range n {
		kind := drawKind(t)
		if i > 0 && rapid.IntRange(0, 2).Draw(t, "join") == 0 {
			kind += ", join: " + rapid.SampledFrom(workflow.Values[workflow.Join]()).Draw(t, "how").String()
		}
		if i == n-1 && rapid.Bool().Draw(t, "ends") {
			kind = ", end: complete"
		}
		nodes = append(nodes, fmt.Sprintf("  - {id: n%d%s}", i, kind))
	}
	for i := range n - 1 {
		for j := range n {
			// Mostly forwards, so that most runs end.
			if j == i || j > i && rapid.IntRange(0, 1).Draw(t, "edge") > 0 || j < i && rapid.IntRange(0, 11).Draw(t, "back") > 0 {
				continue
			}
			transitions = append(transitions, fmt.Sprintf("  - {from: n%d, to: n%d, priority: %d%s}", i, j, rapid.IntRange(0, 1).Draw(t, "tier"), drawCondition(t)))
		}
	}
	if len(transitions) == 0 {
		transitions = []string{"  - {from: n0, to: n1}"}
	}
	return definitionOf(nodes, transitions)
}

func drawCondition(t *rapid.T) string {
	return rapid.SampledFrom([]string{
		"", "", "", `, condition: "has(state.ok) && state.ok == true"`, `, condition: "has(state.a) && has(state.a.n) && state.a.n > 1"`, ", outcome: " + string(drawValue(t, workflow.Values[workflow.On]())),
	}).Draw(t, "when")
}

func definitionOf(nodes, transitions []string) string {
	return "name: drawn\nmode: graph\nstart: n0\nnodes:\n" + strings.Join(nodes, "\n") + "\ntransitions:\n" + strings.Join(transitions, "\n") + "\n"
}

// drawGroup draws a fan-out, with a join whose settings are of the lists of their values.
func drawGroup(t *rapid.T) string {
	nodes := []string{"  - {id: n0}", "  - {id: n1" + drawKind(t) + "}", "  - {id: n2" + drawKind(t) + "}", "  - {id: n3, join: all}", "  - {id: n4, end: complete}"}
	branches := rapid.SampledFrom([]string{`, foreach: {collection: "[1, 2]"}`, ", spawnCount: 2", ""}).Draw(t, "branches")
	strategy := rapid.SampledFrom(append(workflow.Values[workflow.Strategy](), workflow.MOfN(3))).Draw(t, "strategy").String()
	if strategy == workflow.MOfN(3).String() {
		strategy = "{mOfN: 3}"
	}
	sync := fmt.Sprintf("{siblingGroup: g, strategy: %s, remaining: %s, timeout: 1m, onTimeout: %s, onShortfall: %s%s, merge: {target: state.all, strategy: %s, as: value}}",
		strategy, drawValue(t, workflow.Values[workflow.Remaining]()), drawValue(t, workflow.Values[workflow.JoinTimeout]()), drawValue(t, workflow.Values[workflow.Shortfall]()),
		rapid.SampledFrom([]string{"", "", ", tolerate: {failures: 1}", ", tolerate: {failureRatio: 0.5}"}).Draw(t, "tolerate"), rapid.SampledFrom(merge.All()).Draw(t, "merge"))
	return definitionOf(nodes, []string{
		"  - {from: n0, to: n1, siblingGroup: g" + branches + "}",
		"  - {from: n1, to: n2" + drawCondition(t) + "}",
		"  - {from: n2, to: n3, synchronization: " + sync + drawCondition(t) + "}",
		"  - {from: n0, to: n3" + drawCondition(t) + "}",
		"  - {from: n1, to: n4, priority: 1" + drawCondition(t) + "}",
	})
}

// drawValue draws a value of an enumeration.
func drawValue[T any](t *rapid.T, values []T) T {
	return rapid.SampledFrom(values).Draw(t, "value")
}

// definitionsDrawn returns those of known seeds, so that a test is the same each time.
func definitionsDrawn(n int) (out []*workflow.Definition) {
	drawn := rapid.Custom(drawDefinition)
	for seed := range n {
		if d, err := workflow.ParseYAML([]byte(drawn.Example(seed))); err == nil && d.Validate() == nil {
			out = append(out, d)
		}
	}
	return out
}

// TestEveryValueIsDrawn: the drawn definitions have every kind of node, every outcome, and every value by which tokens go or
// meet.
func TestEveryValueIsDrawn(t *testing.T) {
	var missing []string
	for _, m := range drawn.Missing(definitionsDrawn(200), map[string]string{
		"Mode dag":     "all its joins are met",
		"Join any":     "it is of a dag",
		"Join mOfN":    "it is of a dag",
		"MergeAs blob": "what is merged decides nothing",
	}) {
		if name, _, _ := strings.Cut(m, " is "); strings.Contains(name, " ") {
			missing = append(missing, m)
		}
	}
	require.Empty(t, missing)
}

// TestFindingsArePlayed: every finding of a run comes with a scenario, and the engine plays it to the outcome that the finding tells of,
// whatever the definition.
func TestFindingsArePlayed(t *testing.T) {
	harness.InTurn(t, 4)
	var found []soundness.Finding
	defs := definitionsDrawn(harness.Figure(150, 400, 3000))
	for _, d := range defs {
		r, err := soundness.Check(d, soundness.Options{States: 300, StallAfter: true})
		require.NoError(t, err)
		found = append(found, r.Faults()...)
	}
	codes := map[string]int{}
	for _, f := range found {
		codes[f.Code]++
		playScenario(t, f)
	}
	t.Log(len(defs), codes)
	want := []string{soundness.UnmeetableJoin, soundness.ShadowedTier, soundness.LeftoverTokens, soundness.EndlessLoop}
	if len(defs) > 200 {
		want = append(want, soundness.Deadlock) // which two in 400 have
	}
	for _, code := range want {
		require.Positive(t, codes[code], code)
	}
}
