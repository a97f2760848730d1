package pawl_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// A run that waits in memory has one goroutine, and its stack has become small again when
// Go's collector has seen it.
func TestAWaitingRunHasASmallStack(t *testing.T) {
	if harness.Raced {
		t.Skip("under the race detector frames are larger")
	}
	e := open(t, t.TempDir(), pawl.Options{IdleAfter: time.Hour})
	def := &workflow.Definition{Name: "waits", Start: "wait", Nodes: []workflow.Node{{ID: "wait", Wait: &workflow.WaitSpec{Event: "go"}}}}
	measure := func() (stacks uint64, goroutines int) {
		for range 3 { // each halves a stack once
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.StackInuse, runtime.NumGoroutine()
	}
	const runs = 300
	stacks, goroutines := measure()
	for i := range runs {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("run-", i)), Definition: def}, nil))
	}
	stacksAfter, goroutinesAfter := measure()
	require.InDelta(t, runs, goroutinesAfter-goroutines, 5)
	require.Less(t, float64(stacksAfter-stacks)/runs, 6.5*1024)
}
