package below

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// An output takes the place of a file whole, and never that of what was read; a link stays one.
func TestWriteOutput(t *testing.T) {
	dir := t.TempDir()
	input, path, link := filepath.Join(dir, "in.yaml"), filepath.Join(dir, "out.go"), filepath.Join(dir, "link.go")
	require.NoError(t, os.WriteFile(input, []byte("input"), 0o600))
	require.NoError(t, os.Symlink(path, link))
	require.NoError(t, os.Symlink(input, filepath.Join(dir, "again.yaml")))
	for _, name := range []string{input, filepath.Join(dir, "again.yaml")} {
		require.ErrorContains(t, WriteOutput(name, []byte("lost"), input), "is what was read")
	}
	for i, name := range []string{path, link, path} {
		text := []byte{'0' + byte(i)}
		require.NoError(t, WriteOutput(name, text, input))
		now, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, now)
		require.NoError(t, os.Chmod(path, 0o640))
	}
	info, err := os.Lstat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o640), info.Mode(), "that of the file which was there")
	to, err := os.Readlink(link)
	require.NoError(t, err)
	require.Equal(t, path, to)
	require.Error(t, WriteOutput(dir, nil, input))
	text, err := os.ReadFile(input)
	require.NoError(t, err)
	require.Equal(t, "input", string(text))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 4)
}

// A leftover of a process that was killed is in nobody's way, and an error names the file that was asked for.
func TestWriteOutputBesideALeftover(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.svg")
	leftover := fmt.Sprintf("%s.%d.tmp", path, os.Getpid())
	require.NoError(t, os.WriteFile(leftover, []byte("half"), 0o600))
	require.NoError(t, WriteOutput(path, []byte("whole"), "x"))
	text, err := os.ReadFile(leftover)
	require.NoError(t, err)
	require.Equal(t, "half", string(text))

	path = filepath.Join(t.TempDir(), "missing", "run.svg")
	err = WriteOutput(path, []byte("whole"), "x")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "open "+path+": ")
}

// A file that is read-only is refused, though its folder would let it be replaced.
func TestWriteOutputKeepsAReadOnlyFile(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write to every file")
	}
	path := filepath.Join(t.TempDir(), "run.svg")
	require.NoError(t, os.WriteFile(path, []byte("kept"), 0o444))
	err := WriteOutput(path, []byte("lost"), "x")
	require.ErrorIs(t, err, fs.ErrPermission)
	require.ErrorContains(t, err, path)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "kept", string(text))
}
