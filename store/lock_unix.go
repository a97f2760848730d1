//go:build unix

package store

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// noFollow makes open refuse symbolic links, and not wait for a FIFO's writer.
const noFollow = unix.O_NOFOLLOW | unix.O_NONBLOCK

// takeLock takes the lock file at path for this process, until the file is closed.
//
// The lock is one of flock: it belongs to the open file, ends with the process whatever it dies
// of, and keeps away a second Dir of the same process too. It does not wait.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	return flockFile(f, unix.LOCK_EX)
}

// takeSharedLock keeps engines away from the lock file at path, which must exist,
// until it is closed. Others may do so at the same time.
func takeSharedLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	return flockFile(f, unix.LOCK_SH)
}

// linkCount returns how many names a file has.
func linkCount(info os.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Nlink)
	}
	return 1
}

// isFileAt reports whether a file is what a path names. It is os.SameFile after os.Lstat,
// without their allocations: every commit asks twice.
func isFileAt(path string, file os.FileInfo) (bool, error) {
	want, ok := file.Sys().(*syscall.Stat_t)
	var now syscall.Stat_t
	err := syscall.Lstat(path, &now)
	for err == syscall.EINTR {
		err = syscall.Lstat(path, &now)
	}
	if err != nil {
		return false, &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	return ok && now.Dev == want.Dev && now.Ino == want.Ino, nil
}

// flockFile takes a lock of a kind, or fails at once with ErrLocked, naming who has it.
func flockFile(f *os.File, how int) (*os.File, error) {
	err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	defer func() { _ = f.Close() }() // the other error tells more
	if err == unix.EWOULDBLOCK {
		return nil, fmt.Errorf("%w%s: close that one", ErrLocked, lockHolder(f))
	}
	return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
}

// lockHolder says who holds a lock, as far as the system tells: Linux lists the locks of
// all processes.
func lockHolder(f *os.File) string {
	list, err := os.ReadFile("/proc/locks")
	info, statErr := f.Stat()
	if err != nil || statErr != nil {
		return ""
	}
	id, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(uint64(id.Dev)), unix.Minor(uint64(id.Dev)), id.Ino)
	for line := range strings.Lines(string(list)) {
		// 1: FLOCK  ADVISORY  WRITE 26012 fe:00:9978229 0 EOF
		if field := strings.Fields(line); len(field) > 5 && field[1] == "FLOCK" && field[5] == file {
			return ", of process " + field[4]
		}
	}
	return ""
}

// releaseLock gives a lock back. A process that is just being made has the file open
// as well until it runs its program, so closing it is not enough.
func releaseLock(f *os.File) error {
	return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
}
