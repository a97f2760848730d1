package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/aesgcm"
	"github.com/pawl-run/pawl/workflow"
)

// TestExhibitsOfSealedRunsAreSealed: a command that looks at the sealed file of a run
// writes none of its values in clear text.
func TestExhibitsOfSealedRunsAreSealed(t *testing.T) {
	dir := t.TempDir()
	keyFile := filepath.Join(dir, "keys")
	line := "k1 " + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, aesgcm.KeySize)) + "\n"
	require.NoError(t, os.WriteFile(keyFile, []byte(line), 0o600))
	keys, err := aesgcm.ReadKeyFile(keyFile)
	require.NoError(t, err)
	const secret = "nobody-reads-this"
	handlers := pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) { return task.Input, nil }}
	engine, err := pawl.Open(t.Context(), filepath.Join(dir, "data"), pawl.Options{Codec: keys, Executor: handlers})
	require.NoError(t, err)
	def, err := workflow.ParseYAML([]byte(oneStep))
	require.NoError(t, err)
	_, err = engine.Run(t.Context(), workflow.Run{ID: "r", Definition: def}, map[string]any{"file": secret})
	require.NoError(t, err)
	require.NoError(t, engine.Close(t.Context()))
	files, err := filepath.Glob(filepath.Join(dir, "data", "runs", "*", "*.db"))
	require.NoError(t, err)
	require.Len(t, files, 1)

	copied := filepath.Join(dir, "copied")
	f := dirFlag{Dir: files[0], keyFlag: keyFlag{KeyFile: keyFile}}
	n, redacted, err := f.fillExhibit(t.Context(), &console{Out: io.Discard, Errs: io.Discard, Now: time.Now}, copied)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.False(t, redacted)
	read := 0
	require.NoError(t, filepath.WalkDir(copied, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		require.NotContains(t, string(data), secret, path)
		read++
		return err
	}))
	require.Positive(t, read)
	require.NoError(t, os.RemoveAll(copied))

	e, err := f.openExhibit(t.Context(), &console{Out: io.Discard, Errs: io.Discard, Now: time.Now})
	require.NoError(t, err)
	d, err := e.Data(t.Context(), "r")
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(d.Input), secret, "with the key it is there")
	require.NoError(t, e.close())
}
