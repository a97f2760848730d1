package harness

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Workspace returns an empty directory that is removed after the test. It is in
// memory, if there is enough memory for files: a process that is killed loses
// nothing that it has written, synced or not, so that most tests need no disk, and
// syncing is quick there.
func Workspace(t testing.TB) string {
	t.Helper()
	dir, err := memoryDirectory()
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// CopyLive copies the directory of an engine that goes on, as the death of its process would leave it. A file that
// is moved meanwhile from where the engine makes it is left out, or is where it was moved to. The caller keeps the engine
// from committing. It may be called by any goroutine.
func CopyLive(to, from string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != from {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if e.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), data, 0o600)
	})
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
