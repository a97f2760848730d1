package pawl

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/workflow"
)

// A run that cannot be loaded when it is due, for a reason that may pass, is
// woken later, less and less often.
func TestRunsAreWokenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := Open(t.Context(), t.TempDir(), Options{IdleAfter: time.Second})
		require.NoError(t, err)
		nap := workflow.Node{ID: "nap", Wait: &workflow.WaitSpec{For: time.Hour}}
		run := workflow.Run{ID: "a", Definition: &workflow.Definition{Name: "nap", Start: "nap", Nodes: []workflow.Node{nap}}}
		require.NoError(t, e.Start(t.Context(), run, nil))
		up, tries := e.alarms.up, 0
		e.alarms.up = func(id workflow.RunID) error {
			if tries++; tries <= 5 {
				return errors.New("too many open files")
			}
			return up(id)
		}
		out, err := e.Wait(t.Context(), "a")
		require.NoError(t, err)
		require.NoError(t, out.Err())
		require.Equal(t, 6, tries)
		require.Equal(t, time.Hour+3100*time.Millisecond, out.EndedAt.Sub(out.StartedAt))
		require.NoError(t, e.Close(context.Background()))
	})
}
