package actor_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A look sees what is committed; if its question panics or its actor has ended, the caller
// is told.
func TestLook(t *testing.T) {
	d := &disk{graph: graph(t, fanout), fault: func() string { return "" }}
	a := actor.New("r", d, &office{perform: func(actor.Dispatch) {}, stays: true}, options())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(t.Context()) }()
	require.NoError(t, a.Ask(t.Context(), state.Start{}))
	var status workflow.RunStatus
	var seq int64
	require.NoError(t, a.Look(t.Context(), func(s *state.State, at int64) { status, seq = s.Status, at }))
	require.Equal(t, workflow.RunRunning, status)
	require.Equal(t, int64(1), seq)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Look(gone, func(*state.State, int64) {}); err != nil { // either may be noticed first
		require.ErrorIs(t, err, context.Canceled)
	}
	require.ErrorIs(t, a.Look(t.Context(), func(*state.State, int64) { panic("no room") }), actor.ErrStopped)
	require.ErrorContains(t, <-ended, "no room")
	require.ErrorIs(t, a.Look(t.Context(), func(*state.State, int64) {}), actor.ErrStopped)
}
