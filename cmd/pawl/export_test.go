package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/aesgcm"
	"github.com/pawl-run/pawl/workflow"
)

// A file is there under its name only once it was written and read, and nothing is left of it
// otherwise.
func TestCreateWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.pawl")
	broken := errors.New("broken")
	write := func(w *os.File) error { _, err := io.WriteString(w, "text"); return err }
	check := func(name string) error {
		require.NoFileExists(t, path, "it has no name before it was read")
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, "text", string(text))
		return nil
	}
	_, err := new(console).createWhole(path, func(w *os.File) error { return errors.Join(write(w), broken) }, check)
	require.ErrorIs(t, err, broken)
	_, err = new(console).createWhole(path, write, func(string) error { return broken })
	require.ErrorIs(t, err, broken)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	size, err := new(console).createWhole(path, write, check)
	require.NoError(t, err)
	require.EqualValues(t, 4, size)
	_, err = new(console).createWhole(path, write, check)
	require.ErrorContains(t, err, "is there already")
	left, err = os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
}

// A goodAfterAll fails to write once.
type goodAfterAll struct{ failed error }

func (w *goodAfterAll) Write(text []byte) (int, error) {
	err := w.failed
	w.failed = nil
	return len(text), err
}

// An error of writing is not forgotten when the next write goes well.
func TestOwnErrorsAreKept(t *testing.T) {
	broken := errors.New("broken")
	w := &ownErrors{to: &goodAfterAll{broken}}
	for range 2 {
		_, _ = w.Write([]byte("text"))
		require.Equal(t, broken, w.err)
	}
}

// A file that gets the name while the other is written keeps it, and what it has, on file systems with links and without.
func TestCreateWholeReplacesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.pawl")
	write := func(w *os.File) error { _, err := io.WriteString(w, "text"); return err }
	_, err := new(console).createWhole(path, write, func(string) error { return os.WriteFile(path, []byte("another"), 0o600) })
	require.ErrorContains(t, err, "is there already")
	noLink := func(from, to string) error {
		return &os.LinkError{Op: "link", Old: from, New: to, Err: errors.ErrUnsupported}
	}
	other := filepath.Join(dir, "b.tmp")
	require.NoError(t, os.WriteFile(other, []byte("text"), 0o600))
	require.ErrorContains(t, nameWhole(other, path, noLink), "is there already")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "another", string(text))

	free := filepath.Join(dir, "free.pawl")
	require.NoError(t, nameWhole(other, free, noLink))
	text, err = os.ReadFile(free)
	require.NoError(t, err)
	require.Equal(t, "text", string(text))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 2, "the other name is gone")
}

// makeSealed makes an engine directory with the run r, whose values are sealed, and key
// files: the one to read it, other with another key, both with that and the right one, and
// wrong with another key of the same id.
func makeSealed(ts *testscript.TestScript, _ bool, args []string) {
	line := func(id string, b byte) string {
		return id + " " + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, aesgcm.KeySize)) + "\n"
	}
	for name, text := range map[string]string{
		args[1]: line("k1", 1), "other": line("k2", 2), "both": line("k2", 2) + line("k1", 1), "wrong": line("k1", 3),
	} {
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o600))
	}
	keys, err := aesgcm.ReadKeyFile(ts.MkAbs(args[1]))
	ts.Check(err)
	ctx := context.Background()
	engine, err := pawl.Open(ctx, ts.MkAbs(args[0]), pawl.Options{Codec: keys, Executor: pawl.Handlers{"work": func(_ context.Context, t pawl.Task) (any, error) {
		return t.Input, nil
	}}})
	ts.Check(err)
	def, err := workflow.ParseYAML([]byte(oneStep))
	ts.Check(err)
	_, err = engine.Run(ctx, workflow.Run{ID: "r", Definition: def}, map[string]any{"file": "secret"})
	ts.Check(err)
	ts.Check(engine.Close(ctx))
}

// A run is exported once: not again because it is named twice, or comes with a run above it.
func TestNamedRoots(t *testing.T) {
	require.Equal(t, []workflow.RunID{"b", "a", "ab", "c/2.1"}, namedRoots([]string{"a/1.1", "b", "a", "b", "ab", "c/2.1", "c/2.1/3.1"}))
	require.Empty(t, namedRoots(nil))
}
