package below

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tree makes a folder and a file beside it.
func tree(t *testing.T) (folder, outside string) {
	t.Helper()
	parent := t.TempDir()
	folder, outside = filepath.Join(parent, "in"), filepath.Join(parent, "secret.yaml")
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "sub"), 0o700))
	require.NoError(t, os.WriteFile(outside, []byte("secret"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "a.yaml"), []byte("text"), 0o600))
	return folder, outside
}

func TestWhatIsRead(t *testing.T) {
	folder, outside := tree(t)
	require.NoError(t, os.Symlink("../a.yaml", filepath.Join(folder, "sub", "link.yaml")))
	for _, name := range []string{"a.yaml", "sub/../a.yaml", "sub/link.yaml"} {
		data, err := ReadFile(filepath.Join(folder, name), 4, folder)
		require.NoError(t, err, name)
		require.Equal(t, "text", string(data), name)
	}
	data, err := ReadFile(outside, 100, folder, filepath.Dir(folder))
	require.NoError(t, err, "it is below the second")
	require.Equal(t, "secret", string(data))
	require.NoError(t, os.Symlink("../secret.yaml", filepath.Join(folder, "up.yaml")))
	_, err = ReadFile(filepath.Join(folder, "up.yaml"), 100, folder, filepath.Dir(folder))
	require.NoError(t, err, "the link stays below the second")
}

func TestWhatIsRefused(t *testing.T) {
	folder, outside := tree(t)
	link := func(to, name string) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.Symlink(to, path))
		return path
	}
	long := filepath.Join(folder, "long.yaml")
	require.NoError(t, os.WriteFile(long, []byte(strings.Repeat("x", 101)), 0o600))
	for path, want := range map[string]error{
		outside: ErrOutside,
		filepath.Join(folder, "..", "secret.yaml"):      ErrOutside,
		link("../secret.yaml", "out.yaml"):              ErrOutside,
		link(outside, "absolute.yaml"):                  ErrOutside,
		filepath.Join(folder, "sub"):                    ErrIrregular,
		folder:                                          ErrIrregular,
		long:                                            ErrTooLong,
		filepath.Join(folder, "nothing.yaml"):           fs.ErrNotExist,
		link("nothing.yaml", "hanging.yaml"):            fs.ErrNotExist,
		filepath.Join(folder, "..", "in2", "none.yaml"): ErrOutside,
	} {
		_, err := ReadFile(path, 100, folder)
		require.ErrorIs(t, err, want, path)
	}
	_, err := ReadFile(outside, 100, folder)
	require.ErrorContains(t, err, "only files below "+folder+" are read, so copy it there")
	_, err = ReadFile(filepath.Join(folder, "nothing.yaml"), 100, folder)
	require.EqualError(t, err, "no such file or directory", "without the name")
}

// Where files below the current folder are read, the refusal says in which one the same would work.
func TestRefusalNamesTheFolderAbove(t *testing.T) {
	folder, outside := tree(t)
	t.Chdir(filepath.Join(folder, "sub"))
	for path, want := range map[string]string{
		"../a.yaml":         "only files below . are read, so do this in .., or copy it there",
		"../../secret.yaml": "so do this in ../.., or copy it there",
		outside:             "so do this in ../.., or copy it there",
		"/x.yaml":           "are read, so copy it there",
	} {
		_, err := ReadFile(path, 100, "./", ".")
		require.ErrorContains(t, err, filepath.FromSlash(want), path)
	}
	require.NoError(t, os.Symlink("../a.yaml", "up.yaml"))
	_, err := ReadFile("up.yaml", 100, ".", ".")
	require.ErrorContains(t, err, "only files below . are read, so copy it there")
	_, err = ReadFile("../a.yaml", 100, folder+"/sub")
	require.ErrorContains(t, err, "are read, so copy it there", "the current folder does not count")
	t.Chdir("..")
	data, err := ReadFile("sub/../a.yaml", 100, "sub", ".")
	require.NoError(t, err)
	require.Equal(t, "text", string(data))
}

// A file without an end is not waited for.
func TestWithoutAnEnd(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it has no such files")
	}
	_, err := ReadFile("/dev/zero", 100, "/dev")
	require.ErrorIs(t, err, ErrIrregular)
	require.ErrorContains(t, err, "it is a device and no regular file: put what it holds into a file")
	folder, _ := tree(t)
	require.NoError(t, os.Symlink("/dev/zero", filepath.Join(folder, "zero.yaml")))
	_, err = ReadFile(filepath.Join(folder, "zero.yaml"), 100, folder)
	require.ErrorIs(t, err, ErrOutside)
	_, err = ReadFile("/proc/self/status", 10, "/proc/self") // a size of 0, and more than 10 bytes
	if runtime.GOOS == "linux" {
		require.ErrorIs(t, err, ErrTooLong)
	}
}

// Files are removed by their names in folders below an open one, but neither a folder nor what a link leads to, nor what is in a folder that
// has come in place of the open one.
func TestWhatIsRemoved(t *testing.T) {
	path := t.TempDir()
	inside, other := filepath.Join(path, "inside"), filepath.Join(path, "other")
	for _, folder := range []string{filepath.Join(inside, "folder"), other} {
		require.NoError(t, os.MkdirAll(folder, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(folder, "kept"), nil, 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(inside, "empty"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(inside, "file"), nil, 0o600))
	require.NoError(t, os.Symlink("../other/kept", filepath.Join(inside, "link")))
	require.NoError(t, os.Symlink("other", filepath.Join(path, "link")))
	folders, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, folders.Close()) }()
	require.NoError(t, RemoveFiles(folders, "inside", []string{"file", "missing", "link"}))
	require.NoFileExists(t, filepath.Join(inside, "file"))
	require.NoFileExists(t, filepath.Join(inside, "link"))
	require.NoError(t, RemoveFiles(folders, "missing", []string{"file"}))
	require.ErrorIs(t, RemoveFiles(folders, "inside", []string{"empty"}), ErrIrregular)
	require.DirExists(t, filepath.Join(inside, "empty"))
	require.Error(t, RemoveFiles(folders, "inside", []string{"../other/kept"}))
	require.ErrorIs(t, RemoveFiles(folders, "link", []string{"kept"}), ErrOutside)
	require.NoError(t, os.Rename(path, path+"2"))
	require.NoError(t, os.Rename(filepath.Join(path+"2", "inside"), path))
	require.ErrorIs(t, RemoveFiles(folders, "folder", []string{"kept"}), ErrOutside)
	for _, kept := range []string{filepath.Join(path, "folder", "kept"), filepath.Join(path+"2", "other", "kept")} {
		require.FileExists(t, kept)
	}
}
