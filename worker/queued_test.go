package worker

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// A task that waits in a pool says that it waits for a worker, and no longer so when one has it.
func TestATaskSaysThatItWaitsForAWorker(t *testing.T) {
	onEngine(t, func(t *testing.T, p *Pool, e *pawl.Engine) {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: three}, nil))
		ann := client(p, "ann", 1)
		held(t, ann)
		synctest.Wait()
		waiting := 0
		for token, err := range e.Tokens(t.Context(), "r", pawl.TokenFilter{Node: "work"}) {
			require.NoError(t, err)
			if token.Worker != "ann" {
				waiting++
				require.False(t, token.Executing, "%+v", token)
				require.Equal(t, workflow.QueuedForWorker, token.Queued.For)
				require.False(t, token.Queued.Since.IsZero())
			}
		}
		require.Equal(t, 2, waiting)
		x, err := e.Why(t.Context(), "r")
		require.NoError(t, err)
		require.Contains(t, x.Waits[0].For, "1 run")
		require.Contains(t, x.Waits[0].For, "(ann); 2 wait, the first is queued for a worker, since ")
	})
}
