//go:build linux || darwin

package inspector

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/workflow"
)

// The time that a frame waits does not count as work: after a frame that took long on the clock only, the next one comes
// as soon as after any other.
func TestAFrameThatWaitsCostsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := pawl.Open(t.Context(), t.TempDir(), pawl.Options{})
		require.NoError(t, err)
		defer func() { require.NoError(t, engine.Close(t.Context())) }()
		d := &workflow.Definition{Name: "slow", Start: "late", Nodes: []workflow.Node{{ID: "late", Wait: &workflow.WaitSpec{Event: "go"}}}}
		require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: "slow", Definition: d}, map[string]any{"a": 1}))
		const waits = time.Hour // far more than any machine works on a frame
		s := Handler(engine, Options{Redact: func(_ workflow.RunID, _ string, v any) any {
			<-time.After(waits)
			return v
		}}).(*server)
		begin := time.Now()
		frame, err := s.makeFrame(t.Context(), hubKey{address: "run/slow?view=data", rights: api.All})
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(begin), waits)
		require.Less(t, frame.cost, waits/2)
		require.Positive(t, frame.cost)
	})
}
