// Package shown keeps the definitions of examples that are Go values as files, so that tests elsewhere can draw and check
// them too. It is for tests only.
package shown

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// Folder has the files, below the folder of the examples.
const Folder = "testdata/definitions"

var rewrite = flag.Bool("rewrite", false, "write the definitions of the example anew")

// Compare compares the definitions with which the runs in a directory began, which an example has left, with its files: one
// by definition, EXAMPLE_NAME.json.
func Compare(t testing.TB, examples, example, dir string) {
	t.Helper()
	e, err := pawl.Open(t.Context(), dir, pawl.Options{Maintenance: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close(t.Context())) }()
	seen := map[string]bool{}
	for r, err := range e.Runs(t.Context(), pawl.RunFilter{}) {
		require.NoError(t, err)
		if seen[r.Workflow] {
			continue
		}
		seen[r.Workflow] = true
		d, err := e.Revision(t.Context(), r.Run, 1)
		require.NoError(t, err)
		compareFile(t, filepath.Join(examples, Folder, example+"_"+r.Workflow+".json"), d)
	}
	require.NotEmpty(t, seen, "the example has left no run")
}

func compareFile(t testing.TB, path string, d *workflow.Definition) {
	t.Helper()
	raw, err := d.MarshalJSON()
	require.NoError(t, err)
	var text bytes.Buffer
	require.NoError(t, json.Indent(&text, raw, "", "  "))
	text.WriteByte('\n')
	if *rewrite {
		require.NoError(t, os.WriteFile(path, text.Bytes(), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "write it with -rewrite")
	require.Equal(t, string(want), text.String(), path)
}
