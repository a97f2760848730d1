package below

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A file that is mounted, as into a container, cannot be replaced, and is written itself.
func TestWriteOutputToAMountedFile(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from.svg"), filepath.Join(dir, "to.svg")
	require.NoError(t, os.WriteFile(from, []byte("a text that is longer"), 0o600))
	require.NoError(t, os.WriteFile(to, nil, 0o600))
	skipped, result := make(chan error, 1), make(chan error, 1)
	go func() { // the thread is not given back: its mounts are its own
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = unix.Mount(from, to, "", unix.MS_BIND, "")
		}
		if err != nil {
			skipped <- err
			return
		}
		result <- WriteOutput(to, []byte("whole"), "x")
	}()
	select {
	case err := <-skipped:
		t.Skip(err)
	case err := <-result:
		require.NoError(t, err)
	}
	text, err := os.ReadFile(from)
	require.NoError(t, err)
	require.Equal(t, "whole", string(text))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 2)
}
