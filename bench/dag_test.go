package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// dag returns a dag of n nodes and 25 transitions for every 6 of them. The
// transitions to a node come from 50 to 150 nodes before it, so that 50 are ready
// at a time.
func dag(n int) *workflow.Definition {
	d := &workflow.Definition{Name: "dag", Mode: workflow.ModeDAG}
	for i := range n {
		d.Nodes = append(d.Nodes, workflow.Node{ID: nodeID(i), Task: "noop"})
		for k := range 5 {
			if from := i - 50 - (k*k*7+i*k%13)%100; from >= 0 && len(d.Transitions) < n*25/6 {
				d.Transitions = append(d.Transitions, workflow.Transition{From: nodeID(from), To: nodeID(i)})
			}
		}
	}
	return d
}

// runDAG runs a dag of n nodes rounds times, from its start to its last result, all on files. It returns, per node and in
// microseconds, the median time, and the processor time of all rounds, which is 0 where the system does not tell it.
func runDAG(t testing.TB, n, rounds int) (took, processor float64) {
	def := dag(n)
	e, err := pawl.Open(t.Context(), t.TempDir(), pawl.Options{
		Executor: pawl.Handlers{"noop": func(context.Context, pawl.Task) (any, error) { return nil, nil }},
		Bounds:   workflow.Bounds{Nodes: n, Transitions: len(def.Transitions), Bytes: 256 << 20},
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close(context.Background())) }()
	_, err = e.Publish(t.Context(), def)
	require.NoError(t, err)
	var times []float64
	own := ownTime()
	for i := range rounds {
		id := workflow.RunID(fmt.Sprint("dag-", i))
		begin := time.Now()
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Workflow: "dag"}, nil))
		out, err := e.Wait(t.Context(), id)
		require.NoError(t, err)
		require.NoError(t, out.Err())
		times = append(times, float64(time.Since(begin).Microseconds())/float64(n))
	}
	own = ownTime() - own
	snap, err := e.Inspect(t.Context(), "dag-0")
	require.NoError(t, err)
	require.Len(t, snap.Tokens, n)
	return medianOf(times), float64(own.Microseconds()) / float64(n*rounds)
}

// A dag completes, and every node of it has a token.
func TestSmallDAG(t *testing.T) {
	took, _ := runDAG(t, 1_000, 1)
	require.Positive(t, took)
}

// A dag of 60,000 nodes and 250,000 transitions completes, on files, and its
// size does not show in the time per node, which is that of the processor, as others
// may use the machine too. The bound is generous: BenchmarkDAG gives the figure.
func TestLargeDAG(t *testing.T) {
	harness.MeasuresTime(t)
	harness.InTurn(t, 2)
	_, small := runDAG(t, 1_000, 20)
	_, large := runDAG(t, 60_000, 1)
	if small == 0 {
		t.Skip("this system does not tell the processor time")
	}
	t.Logf("processor time: %.0f us a node of 1,000, %.0f us a node of 60,000: ratio %.2f", small, large, large/small)
	require.Less(t, large, 4*small)
}

// BenchmarkDAG runs dags of 1,000 and 60,000 nodes on files, in turns.
func BenchmarkDAG(b *testing.B) {
	var small, large []float64
	for range b.N {
		ofSmall, _ := runDAG(b, 1_000, 20)
		ofLarge, _ := runDAG(b, 60_000, 1)
		small, large = append(small, ofSmall), append(large, ofLarge)
	}
	b.ReportMetric(medianOf(small), "us/node-of-1000")
	b.ReportMetric(medianOf(large), "us/node-of-60000")
	b.ReportMetric(medianOf(large)/medianOf(small), "ratio")
}
