package harness

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every change of a directory shows in its contents.
func TestContents(t *testing.T) {
	dir := Workspace(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.MkdirAll(at("a/b"), 0o700))
	require.NoError(t, os.WriteFile(at("a/file"), []byte("one"), 0o600))
	require.NoError(t, os.Symlink("file", at("a/link")))
	before := Contents(t, dir)
	require.Len(t, before, 4)
	require.Equal(t, before, Contents(t, dir))
	for name, change := range map[string]func() (undo func() error, err error){
		"bytes": func() (func() error, error) {
			return func() error { return os.WriteFile(at("a/file"), []byte("one"), 0o600) }, os.WriteFile(at("a/file"), []byte("two"), 0o600)
		},
		"a new directory": func() (func() error, error) {
			return func() error { return os.Remove(at("c")) }, os.Mkdir(at("c"), 0o700)
		},
		"another kind": func() (func() error, error) {
			back := func() error { return errors.Join(os.Remove(at("a/link")), os.Symlink("file", at("a/link"))) }
			return back, errors.Join(os.Remove(at("a/link")), os.Mkdir(at("a/link"), 0o700))
		},
		"another name": func() (func() error, error) {
			return func() error { return os.Rename(at("b"), at("a/b")) }, os.Rename(at("a/b"), at("b"))
		},
	} {
		undo, err := change()
		require.NoError(t, err, name)
		require.NotEqual(t, before, Contents(t, dir), name)
		require.NoError(t, undo(), name)
		require.Equal(t, before, Contents(t, dir), name)
	}
}

func TestFigure(t *testing.T) {
	require.Equal(t, 1000, Figure(true, 3, 100, 1000))
	gate, least := 100, 20
	if Raced || testing.Short() {
		gate, least = 10, 3
	}
	require.Equal(t, gate, Figure(false, 3, 100, 1000))
	require.Equal(t, least, Figure(false, 3, 20, 1000))
}

// A child knows what it is told, and nothing of ours besides.
func TestEnvironment(t *testing.T) {
	t.Setenv("PAWL_OTHER", "1")
	t.Setenv("OTHER", "2")
	got := Environment("PAWL_CHILD=3")
	require.Contains(t, got, "OTHER=2")
	require.Contains(t, got, "PAWL_CHILD=3")
	require.NotContains(t, got, "PAWL_OTHER=1")
}

func TestKilled(t *testing.T) {
	require.True(t, Killed(exec.Command("sh", "-c", "kill -9 $$").Run()))
	require.False(t, Killed(exec.Command("sh", "-c", "kill -15 $$").Run()))
	require.False(t, Killed(exec.Command("sh", "-c", "exit 9").Run()))
	require.False(t, Killed(nil))
}

func TestDefinition(t *testing.T) {
	require.Equal(t, "x", Definition("{name: x, start: a, nodes: [{id: a}]}").Name)
	require.Panics(t, func() { Definition("none") })
}
