package pawl_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// largeText returns a text of letters that compresses little, with a line break and a quote now and then.
func largeText(bytes int) string {
	r := rand.New(rand.NewPCG(1, uint64(bytes)))
	var out strings.Builder
	for out.Len() < bytes {
		out.WriteByte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789"[r.IntN(63)])
		if r.IntN(80) == 0 {
			out.WriteString("\n\"")
		}
	}
	return out.String()[:bytes]
}

// BenchmarkLargeValues measures the steps of a chain that pass on some hundred kilobytes: each is given the text that lies in the
// state, or returns another one, which replaces it.
func BenchmarkLargeValues(b *testing.B) {
	const steps = 20
	text := largeText(900 << 10)
	for name, node := range map[string]string{
		"lies":     "input: {n: state.n}, output: {state.n: result.n}",
		"is given": "input: {text: state.text, n: state.n}, output: {state.n: result.n}",
		"returned": "input: {n: state.n}, output: {state.n: result.n, state.text: result.text}",
	} {
		d := define(b, fmt.Sprintf(`
name: large
start: a
state: {initial: {n: 0}}
nodes: [{id: a, output: {state.text: input.text}}, {id: b, task: work, %s}]
transitions: [{from: a, to: b}, {from: b, to: b, condition: "state.n < %d", loop: {maxIterations: 1000}}]
`, node, steps))
		returns := strings.Contains(node, "result.text")
		for _, durability := range []pawl.Durability{pawl.PowerLoss, pawl.ProcessCrash} {
			b.Run(fmt.Sprintf("%s/%v", name, durability), func(b *testing.B) {
				e, err := pawl.Open(b.Context(), b.TempDir(), pawl.Options{Durability: durability, Executor: pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
					n := task.Input.(map[string]any)["n"].(int64) + 1
					if returns {
						return map[string]any{"n": n, "text": fmt.Sprint(n) + text}, nil
					}
					return map[string]any{"n": n}, nil
				}}})
				require.NoError(b, err)
				defer func() { require.NoError(b, e.Close(context.Background())) }()
				i, begin := 0, time.Now()
				for b.Loop() {
					i++
					out, err := e.Run(b.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("r", i)), Definition: d}, map[string]any{"text": text})
					require.NoError(b, err)
					require.NoError(b, out.Err())
				}
				b.ReportMetric(time.Since(begin).Seconds()*1000/float64(i*steps), "ms/step")
			})
		}
	}
}
