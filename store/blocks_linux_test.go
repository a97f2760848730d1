package store

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A file system that counts no blocks, as tmpfs with size=0, ramfs and some of FUSE,
// is not full.
func TestAFileSystemThatCountsNoBlocks(t *testing.T) {
	dir := t.TempDir()
	result := make(chan error, 1)
	skipped := make(chan error, 1)
	go func() { // the thread is not given back: its mounts are its own
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = unix.Mount("tmpfs", dir, "tmpfs", 0, "size=0")
		}
		if err != nil {
			skipped <- err
			return
		}
		f, err := os.Create(filepath.Join(dir, "x"))
		if err == nil {
			plain := unix.Fallocate(int(f.Fd()), 0, 0, 1<<20)
			err = errors.Join(plain, allocateBlocks(f, 1<<20), f.Close())
		}
		result <- err
	}()
	select {
	case err := <-skipped:
		t.Skip(err)
	case err := <-result:
		require.NoError(t, err, "fallocate alone succeeds")
	}
}
