package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/testhook"
)

// A directory in which the process may not write is refused with one error, which says that an engine needs to.
func TestOpenWithoutTheRightToWrite(t *testing.T) {
	c, err := sqlite.Open(sqlite.Memory, "")
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	readOnly := c.Script("PRAGMA query_only=ON; CREATE TABLE t (a)")
	require.Error(t, readOnly)
	for _, err := range []error{readOnly, &fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, syscall.EROFS} {
		require.ErrorIs(t, accessError(err), fs.ErrPermission)
		require.ErrorIs(t, accessError(err), err)
	}
	other := errors.New("x")
	require.Equal(t, other, accessError(other))

	path := t.TempDir()
	require.NoError(t, open(t, path).Close())
	result, skipped := make(chan error, 1), make(chan error, 1)
	go func() { // the thread is not given back: its mounts are its own
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
		for _, m := range []struct {
			on    string
			flags uintptr
		}{{"/", unix.MS_REC | unix.MS_PRIVATE}, {path, unix.MS_BIND}, {path, unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY}} {
			if err == nil {
				err = unix.Mount(path, m.on, "", m.flags, "")
			}
		}
		if err != nil {
			skipped <- err
			return
		}
		_, err = Open(path, Options{})
		result <- err
	}()
	select {
	case err := <-skipped:
		t.Skip(err)
	case err := <-result:
		require.ErrorIs(t, err, fs.ErrPermission)
		require.ErrorContains(t, err, "an engine needs to write in its directory, also to read it")
	}
}

// A copy whose name cannot be made durable, after all else was, is not there.
func TestACopyWithoutADurableName(t *testing.T) {
	above := t.TempDir()
	into := filepath.Join(above, "copy")
	hook, named := &testhook.Hook{}, false
	hook.OnHit(func(point string) {
		if point == "backup.named" {
			named = os.Chmod(above, 0o300) == nil // it can be written, and not be read
		}
	})
	result := make(chan error, 1)
	go func() { // the thread is not given back: it may read what any user may
		runtime.LockOSThread()
		err := dropCapabilities(unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH)
		if err == nil {
			err = newDirectory(hook, into, func(string) error { return nil })
		}
		result <- err
	}()
	require.ErrorIs(t, <-result, fs.ErrPermission)
	require.True(t, named)
	require.NoDirExists(t, into)
	require.NoError(t, os.Chmod(above, 0o700)) //nolint:gosec // a folder
}

// dropCapabilities takes capabilities from the thread.
func dropCapabilities(all ...int) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	for _, c := range all {
		data[c/32].Effective &^= 1 << (c % 32)
	}
	return unix.Capset(&header, &data[0])
}
