package harness

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Workspace returns an empty directory that is removed after the test. It is in
// memory, if there is a file system in memory: a process that is killed loses
// nothing that it has written, synced or not, so that most tests need no disk, and
// syncing is quick there.
func Workspace(t testing.TB) string {
	t.Helper()
	const memory = "/dev/shm"
	if info, err := os.Stat(memory); err != nil || !info.IsDir() {
		return t.TempDir()
	}
	program := strings.TrimSuffix(filepath.Base(os.Args[0]), ".test")
	dir, err := os.MkdirTemp(memory, "pawl-"+program+"-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// Contents returns what is in a directory, by path below it: of a file its size and
// hash, of anything else what it is. Links are not followed. It opens files of
// databases, by which a process loses locks of its own on them. It may be called by
// any goroutine; what cannot be read fails the test.
func Contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if !e.Type().IsRegular() {
			out[name] = e.Type().String()
			return nil
		}
		data, err := os.ReadFile(path)
		out[name] = fmt.Sprintf("%d bytes %x", len(data), sha256.Sum256(data))
		return err
	})
	if err != nil {
		t.Errorf("contents of %s: %v", dir, err)
	}
	return out
}
