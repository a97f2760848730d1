package pawl_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// While many runs are purged, others start, one after the other, and none of them waits long. docs/performance.md has the figures of 15,000.
func TestPurgeStarvesNobody(t *testing.T) {
	n := harness.Figure(150, 600, 15_000)
	e, err := pawl.Open(t.Context(), harness.Workspace(t), pawl.Options{Durability: pawl.ProcessCrash, Executor: pawl.Handlers{}})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close(context.Background())) }()
	old, live := define(t, "name: old\nstart: a\nnodes: [{id: a}]\n"), define(t, "name: live\nstart: a\nnodes: [{id: a, wait: {event: go}}]\n")
	for i := range n {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("old-", i)), Definition: old}, nil))
	}
	start := func(id string) time.Duration {
		began := time.Now()
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(id), Definition: live}, nil))
		return time.Since(began)
	}
	alone := make([]time.Duration, 0, 200)
	for i := range cap(alone) {
		alone = append(alone, start(fmt.Sprint("alone-", i)))
	}

	purged := make(chan int, 1)
	began := time.Now()
	go func() { // ends with what there is to purge
		n, err := e.PurgeEnded(context.Background(), pawl.Retention{Workflow: "old", Keep: 1})
		if err != nil {
			t.Error(err)
		}
		purged <- n
	}()
	var beside []time.Duration
	for len(purged) == 0 {
		beside = append(beside, start(fmt.Sprint("beside-", len(beside))))
	}
	took := time.Since(began)
	require.Equal(t, n-1, <-purged)
	for _, of := range [][]time.Duration{alone, beside} {
		slices.Sort(of)
	}
	t.Logf("%d runs purged in %v; of a Start p50, p99, most: alone %v, %v, %v; beside, of %d, %v, %v, %v", n-1, took.Round(time.Millisecond),
		percentile(alone, 50), percentile(alone, 99), alone[len(alone)-1], len(beside), percentile(beside, 50), percentile(beside, 99), beside[len(beside)-1])
	require.Greater(t, len(beside), n/100, "starts beside the purge")
	if harness.CurrentLevel() >= harness.Gate && !harness.Raced {
		require.Less(t, percentile(beside, 99), time.Second, "p99 of a start beside the purge")
	}
}

// percentile returns what so many of a hundred sorted spans are not above.
func percentile(sorted []time.Duration, of int) time.Duration { return sorted[len(sorted)*of/100] }
