package nighttest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// TestTheNight: as many orders are stuck, have failed and were completed as the constants say.
func TestTheNight(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Fill(t.Context(), dir, time.Now()))
	e, err := pawl.Open(t.Context(), dir, pawl.Options{Maintenance: true})
	require.NoError(t, err)
	n := map[workflow.RunStatus]int{}
	for r, err := range e.Runs(t.Context(), pawl.RunFilter{}) {
		require.NoError(t, err)
		n[r.Status]++
	}
	require.Equal(t, map[workflow.RunStatus]int{workflow.RunRunning: Stuck, workflow.RunFailed: Failed, workflow.RunCompleted: 2 * Completed}, n)
	require.Equal(t, 37, Stuck)
	require.NoError(t, e.Close(t.Context()))
}
