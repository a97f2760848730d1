package crashtest

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
)

// A run that had ended when its process died, but was not in its file yet, gets
// there although nobody asks for it.
func TestLeftover(t *testing.T) {
	before := descriptors(t)
	w := workNamed("nested")
	trial, err := newTrial(workspace(t), w, nil)
	require.NoError(t, err)
	require.True(t, trial.die(kill{"end.tell", 1}))
	require.True(t, trial.Was[w.runs[0].ID].Head.Status.Final())

	filed := make(chan struct{}, 1)
	hook := &testhook.Hook{}
	hook.OnHit(func(name string) {
		if name == "file.end" {
			filed <- struct{}{}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	engine, err := pawl.Open(testhook.With(ctx, hook), filepath.Join(trial.Dir, "engine"), pawl.Options{})
	require.NoError(t, err)
	select {
	case <-filed:
	case <-ctx.Done():
		t.Error("it was not filed")
	}
	require.NoError(t, engine.Close(t.Context()))
	trial.Lives++
	trial.look(true)
	require.Empty(t, trial.Wrong)
	require.Equal(t, before, descriptors(t), "open descriptors")
}
