package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A file is there under its name only once it was written and read, and nothing is left of it
// otherwise.
func TestCreateWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.pawl")
	broken := errors.New("broken")
	write := func(w io.Writer) error { _, err := io.WriteString(w, "text"); return err }
	check := func(name string) error {
		require.NoFileExists(t, path, "it has no name before it was read")
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, "text", string(text))
		return nil
	}
	_, err := new(console).createWhole(path, func(w io.Writer) error { return errors.Join(write(w), broken) }, check)
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
