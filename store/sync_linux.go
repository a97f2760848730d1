package store

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncAll makes everything that was written below an open directory durable:
// contents and names.
func syncAll(dir *os.File) error { return unix.Syncfs(int(dir.Fd())) }

// allocate takes room for a file on the disk.
func allocate(f *os.File, bytes int64) error { return unix.Fallocate(int(f.Fd()), 0, 0, bytes) }

// canSyncAll says that one syncAll does for any number of files.
const canSyncAll = true
