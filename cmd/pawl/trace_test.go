package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// The runs below a run are found in its directory or export, which is opened once, however many they are: after the first, nothing
// looks whether it still is there.
func TestRunsBelowAreFoundAtOnce(t *testing.T) {
	const children = 20
	folder := harness.Workspace(t)
	dir, export := filepath.Join(folder, "data"), filepath.Join(folder, "parent.pawl")
	e, err := pawl.Open(t.Context(), dir, pawl.Options{})
	require.NoError(t, err)
	for _, text := range []string{"name: child\nstart: a\nnodes: [{id: a}]", `name: parent
start: split
nodes: [{id: split}, {id: below, subworkflow: {name: child}}]
transitions: [{from: split, to: below, foreach: {collection: input.items}}]`} {
		d, err := workflow.Parse([]byte(text))
		require.NoError(t, err)
		_, err = e.Publish(t.Context(), d)
		require.NoError(t, err)
	}
	_, err = e.Run(t.Context(), workflow.Run{ID: "parent", Workflow: "parent"}, map[string]any{"items": make([]any, children)})
	require.NoError(t, err)
	var below []workflow.RunID
	for run, err := range e.Runs(t.Context(), pawl.RunFilter{Parent: "parent"}) {
		require.NoError(t, err)
		below = append(below, run.Run)
	}
	require.Len(t, below, children)
	f, err := os.Create(export)
	require.NoError(t, err)
	require.NoError(t, e.Export(t.Context(), "parent", f, pawl.ExportOptions{}))
	require.NoError(t, f.Close())
	require.NoError(t, e.Close(t.Context()))
	for name, opened := range map[string]string{dir + ":parent": filepath.Join(dir, "pawl.db"), export: export, export + ":parent": export} {
		rec, find, done, err := new(console).openWithBelow(t.Context(), name, nil)
		require.NoError(t, err)
		require.EqualValues(t, "parent", rec.Run)
		away := opened + ".away"
		for i, child := range below {
			rec, err := find(child)
			require.NoError(t, err)
			require.Equal(t, child, rec.Run)
			for _, err := range rec.Records() {
				require.NoError(t, err)
			}
			if i == 0 {
				require.NoError(t, os.Rename(opened, away))
			}
		}
		_, err = find("parent/none")
		require.ErrorIs(t, err, pawl.ErrRunNotFound)
		done()
		require.NoError(t, os.Rename(away, opened))
	}
}
