package store

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncAll makes everything that was written below an open directory durable:
// contents and names.
func syncAll(dir *os.File) error { return unix.Syncfs(int(dir.Fd())) }

// allocateBlocks takes room for a file on the disk. It looks first whether there is any:
// where there is too little, to try would take that until the file is gone again,
// and whoever writes to the disk meanwhile would find it full.
func allocateBlocks(f *os.File, bytes int64) error {
	if !hasRoom(f, bytes) {
		return unix.ENOSPC
	}
	return unix.Fallocate(int(f.Fd()), 0, 0, bytes)
}

const tellsRoom = true

// hasRoom reports whether the disk that a file is on has room for some bytes, as far as it
// says.
func hasRoom(f *os.File, bytes int64) bool {
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &s); err != nil || s.Blocks == 0 { // some count none
		return true
	}
	block := max(int64(s.Bsize), int64(s.Frsize), 1)
	return s.Bavail >= uint64(bytes/block)
}

// syncData makes the contents of a file durable, and of what else is known of it as much as
// it takes to read them.
func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// canSyncAll says that one syncAll does for any number of files.
const canSyncAll = true
