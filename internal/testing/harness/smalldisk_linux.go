package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// MountSmall mounts a file system in memory of so many bytes at path, and skips the test
// where that is not allowed.
func MountSmall(t testing.TB, path string, size int) {
	t.Helper()
	err := unix.Mount("none", path, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size))
	if err != nil {
		t.Skipf("SKIPPED: no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) { // it may be gone
			t.Errorf("unmount %s: %v", path, err)
		}
	})
}

// FillDisk takes all space of a file system but so many bytes, and returns what gives it
// back. It is in the folder that a file system may have from the start, and may be called by any goroutine; what goes wrong fails the test.
func FillDisk(t testing.TB, dir string, free int64) (release func()) {
	folder := filepath.Join(dir, "lost+found")
	path := filepath.Join(folder, "filler")
	err := os.MkdirAll(folder, 0o700)
	for try := 0; err == nil; try++ {
		var st unix.Statfs_t
		if err = unix.Statfs(dir, &st); err == nil {
			err = fillFile(path, int64(st.Bavail)*st.Bsize-free)
		}
		if !errors.Is(err, unix.ENOSPC) || try == 100 {
			break
		}
		err = nil // an engine has taken some of it meanwhile
	}
	if err != nil {
		t.Errorf("fill the disk: %v", err)
	}
	return func() { require.NoError(t, os.Remove(path)) }
}

// fillFile makes a file grow by so many bytes.
func fillFile(path string, more int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && more > 0 {
		err = unix.Fallocate(int(f.Fd()), 0, info.Size(), more)
	}
	return errors.Join(err, f.Close())
}
