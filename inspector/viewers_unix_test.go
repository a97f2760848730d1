//go:build unix

package inspector_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// A workload is one of those that docs/performance.md names.
type workload struct {
	name  string
	runs  int
	runOf func() (*workflow.Definition, any)
}

// chainOf1000 is a run of W1.
func chainOf1000() (*workflow.Definition, any) {
	d := &workflow.Definition{Name: "chain", Start: "t0"}
	for i := range 1000 {
		d.Nodes = append(d.Nodes, workflow.Node{ID: workflow.NodeID(fmt.Sprint("t", i)), Task: "work"})
		if i > 0 {
			d.Transitions = append(d.Transitions, workflow.Transition{From: workflow.NodeID(fmt.Sprint("t", i-1)), To: workflow.NodeID(fmt.Sprint("t", i))})
		}
	}
	return d, nil
}

// fanOutOf10000 is a run of W2.
func fanOutOf10000() (*workflow.Definition, any) {
	d := &workflow.Definition{Name: "fanout", Start: "split"}
	d.Nodes = []workflow.Node{{ID: "split"}, {ID: "load", Task: "work"}, {ID: "done"}}
	d.Transitions = []workflow.Transition{
		{From: "split", To: "load", Foreach: &workflow.Foreach{Collection: "input.items"}, SiblingGroup: "g"},
		{From: "load", To: "done", Synchronization: &workflow.Synchronization{SiblingGroup: "g"}},
	}
	return d, map[string]any{"items": make([]int, 10_000)}
}

// viewerRounds is how many times each is measured: W1 and W2, with viewers and without.
var viewerRounds = flag.Int("viewers.rounds", 20, "rounds of TestViewersCostLittle: each measures twice with viewers and twice without")

// TestViewersCostLittle: twenty viewers, half of them on the overview and half on the page of a
// run from its start to its end, make W1 and W2 less than 3 % slower, in CPU, which says more
// than time on a machine that others use. The work of the viewers, who read the pages, counts
// too.
//
// A round measures without, with, with and without viewers, so that what drifts evenly cancels out, and is one ratio. The
// test is about the median of the ratios, and says between which of them the true median is with a probability of 95 %
// (the sign test: it assumes no shape of the noise). A round in which none of the four has viewers says how much of that is noise.
func TestViewersCostLittle(t *testing.T) {
	harness.RequireLevel(t, harness.Release, "it measures many rounds")
	for _, w := range []workload{{"W1", 8, chainOf1000}, {"W2", 4, fanOutOf10000}} {
		t.Run(w.name, func(t *testing.T) {
			var noise, cost []float64
			for range *viewerRounds {
				noise = append(noise, measureRound(t, w, 0))
				cost = append(cost, measureRound(t, w, 20))
			}
			low, median, high := medianOf(cost)
			noiseLow, noiseMedian, noiseHigh := medianOf(noise)
			t.Logf("with 20 viewers: CPU ×%.3f (median of %d; true one within %.3f to %.3f); without any ×%.3f (%.3f to %.3f)",
				median, len(cost), low, high, noiseMedian, noiseLow, noiseHigh)
			assert.Less(t, median, 1.03)
		})
	}
}

// measureRound returns how many times the CPU of a workload it takes with viewers.
func measureRound(t *testing.T, w workload, viewers int) float64 {
	without := measureWorkload(t, w, 0)
	with := measureWorkload(t, w, viewers) + measureWorkload(t, w, viewers)
	without += measureWorkload(t, w, 0)
	return float64(with) / float64(without)
}

// medianOf returns the median of a sample, and the values of it between which the median of what it is drawn from is with a
// probability of 95 %.
func medianOf(sample []float64) (low, median, high float64) {
	sorted := slices.Sorted(slices.Values(sample))
	n := len(sorted)
	below := math.Pow(0.5, float64(n)) // the probability that so many or fewer values are below the true median
	term, k := below, 0
	for below <= 0.025 && k < n/2 {
		k++
		term *= float64(n-k+1) / float64(k)
		below += term
	}
	k = max(k-1, 0)
	return sorted[k], (sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[n-1-k]
}

// The order statistics between which a median is: those of the tables of the sign test.
func TestMedianOf(t *testing.T) {
	for n, k := range map[int]int{6: 0, 8: 0, 9: 1, 20: 5, 25: 7, 50: 17} {
		var sample []float64
		for i := range n {
			sample = append(sample, float64(n-1-i))
		}
		low, median, high := medianOf(sample)
		assert.Equal(t, []float64{float64(k), float64(n-1) / 2, float64(n - 1 - k)}, []float64{low, median, high}, n)
	}
}

// measureWorkload returns how much CPU this process takes for the runs of a workload, one after the other, while so
// many people look on.
func measureWorkload(t *testing.T, w workload, viewers int) time.Duration {
	t.Helper()
	work := func(context.Context, pawl.Task) (any, error) { return 1, nil }
	e, err := pawl.Open(t.Context(), harness.Workspace(t), pawl.Options{Executor: pawl.Handlers{"work": work}, Durability: pawl.ProcessCrash})
	require.NoError(t, err)
	server := httptest.NewServer(inspector.Handler(e, inspector.Options{}))
	ctx, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	look := func(page string) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/live/"+page, nil)
		require.NoError(t, err)
		all.Go(func() { // until it leaves, or the run has ended
			if response, err := http.DefaultClient.Do(r); err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			}
		})
	}
	for range viewers / 2 {
		look("")
	}
	runtime.GC() // what was left by others is not counted
	before := spentCPU(t)
	d, input := w.runOf()
	for i := range w.runs {
		id := workflow.RunID(fmt.Sprintf("run-%d", i))
		require.NoError(t, e.Start(ctx, workflow.Run{ID: id, Definition: d}, input))
		if i == 0 {
			for range viewers / 2 {
				look("run/" + string(id))
			}
		}
		_, err := e.Wait(ctx, id)
		require.NoError(t, err)
	}
	spent := spentCPU(t) - before
	leave()
	all.Wait()
	server.Close()
	http.DefaultClient.CloseIdleConnections()
	require.NoError(t, e.Close(context.Background()))
	return spent
}

// spentCPU returns how much CPU this process has taken.
func spentCPU(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
