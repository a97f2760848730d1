//go:build unix

package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// noFollow makes open refuse symbolic links, and not wait for a FIFO's writer.
const noFollow = unix.O_NOFOLLOW | unix.O_NONBLOCK

// takeLock takes the lock file at path for this process, until the file is closed.
//
// The lock is one of flock: it belongs to the open file, ends with the process whatever it dies
// of, and keeps away a second Dir of the same process too.
func takeLock(ctx context.Context, path string, wish lockWish) (*os.File, error) {
	return waitForFlock(ctx, path, os.O_RDWR|os.O_CREATE, unix.LOCK_EX, wish)
}

// takeSharedLock keeps engines away from the lock file at path, which must exist,
// until it is closed. Others may do so at the same time.
func takeSharedLock(ctx context.Context, path string, wish lockWish) (*os.File, error) {
	return waitForFlock(ctx, path, os.O_RDONLY, unix.LOCK_SH, wish)
}

func waitForFlock(ctx context.Context, path string, flags, how int, wish lockWish) (*os.File, error) {
	f, err := os.OpenFile(path, flags|noFollow, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	got, err := wish.acquire(ctx, path, func() (*os.File, error) { return f, flockFile(f, how) })
	if err != nil {
		got, _ = nil, f.Close() // the other error tells more
	}
	return got, err
}

// A lockGate is shut while an engine waits for the lock of a directory: commands, which look whether
// it is, stop before it, and give the directory back. It is a lock of flock on the folder itself, so
// that it needs no file, and ends with the process. It is advice: where the file system knows no
// such locks, nobody is stopped, and an engine waits for a gap between two commands.
type lockGate struct {
	dir  string
	held *os.File // while we keep it shut
}

// shut keeps commands out until open is called, unless somebody else does so already.
func (g *lockGate) shut() {
	if g.held == nil {
		g.held, _ = g.flock(unix.LOCK_EX)
	}
}

// open lets commands in again. The lock is given back by name, as in releaseLock.
func (g *lockGate) open() {
	if g.held != nil {
		_ = releaseLock(g.held) // it was only locked
		g.held = nil
	}
}

// isShut reports whether an engine waits.
func (g *lockGate) isShut() bool {
	f, err := g.flock(unix.LOCK_SH)
	if f != nil {
		_ = releaseLock(f) // it was only locked
	}
	return errors.Is(err, unix.EWOULDBLOCK)
}

// flock opens the folder and takes a lock of it, without waiting.
func (g *lockGate) flock(how int) (*os.File, error) {
	f, err := os.OpenFile(g.dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err != nil {
		_ = f.Close() // it was only opened
		return nil, err
	}
	return f, nil
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

// flockFile takes a lock of a kind, or fails at once with a LockedError that names who has it.
func flockFile(f *os.File, how int) error {
	err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if err == nil {
		return nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return lockHolder(f)
	}
	return fmt.Errorf("lock %s: %w", f.Name(), err)
}

// lockHolder says who holds a lock, as far as the system tells: Linux lists the locks of
// all processes, and what they were called with. The list comes in pieces, and may lack a lock where others
// change between two of them: so it is read a few times.
func lockHolder(f *os.File) *LockedError {
	info, err := f.Stat()
	if err != nil {
		return &LockedError{}
	}
	id, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return &LockedError{}
	}
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(uint64(id.Dev)), unix.Minor(uint64(id.Dev)), id.Ino)
	for range 5 {
		if list, err := os.ReadFile("/proc/locks"); err != nil {
			break
		} else if out := findHolder(string(list), file); out != nil {
			return out
		}
	}
	return &LockedError{}
}

// findHolder looks for the holder of the lock on a file in a list of locks; nil if there is none.
func findHolder(list, file string) *LockedError {
	for line := range strings.Lines(list) {
		// 1: FLOCK  ADVISORY  WRITE 26012 fe:00:9978229 0 EOF
		field := strings.Fields(line)
		if len(field) <= 5 || field[1] != "FLOCK" || field[5] != file {
			continue
		}
		process, err := strconv.Atoi(field[4])
		if err != nil || process <= 0 {
			return &LockedError{} // it is one of another container
		}
		line, _ := os.ReadFile("/proc/" + field[4] + "/cmdline") // it may have ended
		return &LockedError{process, commandOf(strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00"))}
	}
	return nil
}

// releaseLock gives a lock back. A process that is just being made has the file open
// as well until it runs its program, so closing it is not enough.
func releaseLock(f *os.File) error {
	return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
}

// ownerOf returns the id of the user to whom a file belongs, -1 if it cannot be told.
func ownerOf(info fs.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return -1
}

// removeFiles removes files of a folder that may be there, by its name in a folder that is open.
func removeFiles(folders *os.File, folder string, names []string) error {
	conn, err := folders.SyscallConn()
	if err != nil {
		return err
	}
	failed := error(nil)
	err = conn.Control(func(fd uintptr) {
		inside := 0
		err := againIfInterrupted(func() (err error) {
			inside, err = unix.Openat(int(fd), folder, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0) //nolint:gosec // a descriptor
			return err
		})
		if err != nil {
			failed = missingIsFine(err)
			return
		}
		for _, name := range names {
			err := againIfInterrupted(func() error { return unix.Unlinkat(inside, name, 0) })
			failed = errors.Join(failed, missingIsFine(err))
		}
		_ = unix.Close(inside) // nothing was written
	})
	return errors.Join(err, failed)
}

// againIfInterrupted calls the system until no signal interrupts that.
func againIfInterrupted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// missingIsFine returns no error for a file that is not there.
func missingIsFine(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
