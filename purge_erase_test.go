package pawl_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// Purge erases what came with a run: its input, results, signals and the
// text of its definition, also where runs that stay lie on the same pages.
func TestPurgeErases(t *testing.T) {
	const secret = "SECRET-OF-A-CUSTOMER"
	dir := t.TempDir()
	e, err := pawl.Open(t.Context(), dir, pawl.Options{Executor: pawl.Handlers{"echo": func(_ context.Context, task pawl.Task) (any, error) {
		return task.Input, nil
	}}})
	require.NoError(t, err)
	for i := range 40 {
		said := "harmless"
		if i%2 == 1 {
			said = strings.Repeat(secret, i*i) // on the page of others, and on pages of its own
		}
		d := define(t, fmt.Sprintf(`{name: echo, start: a, nodes: [{id: a, task: echo, input: {said: input.said, text: "'%s'"}}, {id: b, wait: {event: go}}], transitions: [{from: a, to: b}], output: {mapping: {said: "nodes['a'].output", heard: "nodes['b'].output"}}}`, said[:min(len(said), 500)]))
		id := workflow.RunID(fmt.Sprintf("run-%d", i))
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: d}, map[string]any{"said": said}))
		require.NoError(t, e.Signal(t.Context(), id, workflow.Signal{Name: "go", Payload: said}))
		_, err := e.Wait(t.Context(), id)
		require.NoError(t, err)
	}
	for i := 1; i < 40; i += 2 {
		require.NoError(t, e.Purge(t.Context(), workflow.RunID(fmt.Sprintf("run-%d", i))))
	}
	require.NoError(t, e.Close(t.Context()))
	require.NoError(t, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		require.Falsef(t, bytes.Contains(data, []byte(secret)), "%s still holds what was purged", name)
		return err
	}))
}
