package pawl

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/workflow"
)

// Wait does not read the row of a run whose actor will tell of its end. The row tells once the actor has
// told, and after a commit that has failed and may have ended the run.
func TestWhoTellsOfTheEnd(t *testing.T) {
	ctx := t.Context()
	hook := &testhook.Hook{}
	e, err := Open(testhook.With(ctx, hook), t.TempDir(), Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close(context.Background())) }()
	g := compileText(t, "name: w\nstart: w\nnodes: [{id: w, wait: {event: go}}]\n")
	require.False(t, e.registry.GoesOn("r"))
	require.NoError(t, e.Start(ctx, workflow.Run{ID: "r", Definition: g.Definition}, nil))
	require.True(t, e.registry.GoesOn("r"))

	e.registry.NoteStatus("r", workflow.RunSuspended)
	require.True(t, e.registry.GoesOn("r"))
	e.registry.NoteStatus("r", workflow.RunCreated) // as after a commit that failed
	require.False(t, e.registry.GoesOn("r"))
	waits := make(chan error, 1)
	go func() {
		_, err := e.Wait(ctx, "r")
		waits <- err
	}()
	told := make(chan bool, 1)
	hook.OnHit(func(point string) {
		if point == "release.begin" {
			told <- e.registry.GoesOn("r")
		}
	})
	require.NoError(t, e.Signal(ctx, "r", workflow.Signal{Name: "go"}))
	require.False(t, <-told, "who begins to wait now is not told")
	require.NoError(t, <-waits)
	out, err := e.Wait(ctx, "r")
	require.NoError(t, err)
	require.Equal(t, workflow.RunCompleted, out.Status)
	require.False(t, e.registry.GoesOn("nobody"))
	_, err = e.Wait(ctx, "nobody")
	require.ErrorIs(t, err, ErrRunNotFound)
}
