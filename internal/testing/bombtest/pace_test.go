package bombtest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// long are computations that take as long as a definition or a value says.
func long(t *testing.T) map[string]func() {
	l := make([]any, 200_000)
	for i := range l {
		l[i] = map[string]any{"n": int64(i)}
	}
	text := value.Encode(l)
	program, err := expr.Compile("x.all(a, x.all(b, a + b < 1000000))", []string{"x"}, expr.Limits{Cost: 10_000_000})
	require.NoError(t, err)
	x := expr.Map{"x": l[:0]}
	for i := range 700 {
		x["x"] = append(x["x"].([]any), int64(i))
	}
	g, err := compiled.Compile(workflow.Bounds{}, define(t, "name: x\nstart: a\nnodes: [{id: a}, {id: b, task: t}]\ntransitions: [{from: a, to: b, foreach: {collection: input.l}}]"))
	require.NoError(t, err)
	start := state.Start{Input: map[string]any{"l": l[:80_000]}}
	plan, err := planning.Step(state.NewState("x", g), start, time.UnixMilli(0).UTC())
	require.NoError(t, err)
	record := decision.Record{Seq: 1, At: time.UnixMilli(0).UTC(), Epoch: 1, Planner: planning.Version, Message: start, Decisions: plan.Decisions}
	return map[string]func(){
		"normalize": func() { _, err := value.Normalize(l, value.Limits{Bytes: 1 << 30}); require.NoError(t, err) },
		"decode":    func() { _, err := value.Decode(text, value.Limits{Bytes: 1 << 30}); require.NoError(t, err) },
		"encode":    func() { value.Encode(l) },
		"size":      func() { value.Size(l) },
		"evaluate":  func() { _, err := program.EvalBool(x); require.NoError(t, err) },
		"plan": func() {
			_, err := planning.Step(state.NewState("x", g), start, time.UnixMilli(0).UTC())
			require.NoError(t, err)
		},
		"record": func() { _, err := record.Encode(); require.NoError(t, err) },
	}
}

// TestLongComputationsStepBack: on one processor, another goroutine gets its turn
// every few hundred microseconds while each of them is under way, not only when
// the scheduler takes the processor away, which is after 10 ms.
func TestLongComputationsStepBack(t *testing.T) {
	harness.MeasuresTime(t)
	for name, f := range long(t) {
		begin := time.Now()
		n := harness.CountTurns(f)
		took := time.Since(begin)
		t.Logf("%-9s %v, %d turns of another goroutine", name, took.Round(time.Microsecond), n)
		// The scheduler alone would give one in 10 ms, and a few that the collector brings. A machine that is slow or does other
		// things takes longer for as many.
		require.Greater(t, n, min(int64(took/(5*time.Millisecond)), 100), name)
	}
	// To compile is short: it steps back once for each expression of a definition, and
	// nearly always the other one is ready. The scheduler alone would bring a few.
	text := strings.Repeat("!", 200) + "true"
	n := harness.CountTurns(func() {
		for range 50 {
			_, err := expr.Compile(text, nil, expr.Limits{})
			require.NoError(t, err)
		}
	})
	require.Greater(t, n, int64(25))
}
