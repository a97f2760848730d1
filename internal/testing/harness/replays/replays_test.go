package replays_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/workflow"
)

// Runs are found in whatever engine directories a folder has.
func TestCheckBelow(t *testing.T) {
	folder := replays.Dir(t)
	d, err := workflow.ParseYAML([]byte("name: one\nstart: a\nnodes: [{id: a, task: work}]\n"))
	require.NoError(t, err)
	for _, dir := range []string{"a", filepath.Join("b", "data")} {
		e, err := pawl.Open(t.Context(), filepath.Join(folder, dir), pawl.Options{Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return 1, nil }}})
		require.NoError(t, err)
		_, err = e.Run(t.Context(), workflow.Run{ID: "r", Definition: d}, nil)
		require.NoError(t, err)
		require.NoError(t, e.Close(t.Context()))
	}
	runs, err := replays.CheckBelow(folder)
	require.NoError(t, err)
	require.Equal(t, 2, runs)
}
