package diskuse

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// Runs whose rows are damaged are a group of their own behind the others; nothing but their number is told.
func TestDamagedRowsAreAGroup(t *testing.T) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	var sizes []store.RunSize
	for range 2 {
		sizes = append(sizes, store.RunSize{Head: store.Head{Workflow: "nonsense", Tenant: "nobody"}, Damaged: true})
	}
	sizes = append(sizes, store.RunSize{Head: store.Head{Workflow: "w", Status: workflow.RunCompleted, StartedAt: at, EndedAt: at}, Bytes: 7, Ended: true})
	failure := error(nil)
	all := func(yield func(store.RunSize, error) bool) {
		for _, s := range sizes {
			if !yield(s, nil) {
				return
			}
		}
		if failure != nil {
			yield(store.RunSize{}, failure)
		}
	}
	groups, err := groupRuns(all, at)
	require.NoError(t, err)
	require.Equal(t, []history.DiskUse{
		{Part: "runs", Workflow: "w", Status: workflow.RunCompleted, Age: "hours", Runs: 1, Bytes: 7, Free: 7},
		{Part: "damaged", Runs: 2},
	}, groups)
	failure = errors.New("no disk")
	_, err = groupRuns(all, at)
	require.ErrorIs(t, err, failure)
}
