package harness

import "golang.org/x/sys/unix"

// freeBytes returns how many bytes may still be written to the file system of a
// directory.
func freeBytes(dir string) (uint64, error) {
	var s unix.Statfs_t
	err := unix.Statfs(dir, &s)
	return s.Bavail * uint64(s.Bsize), err
}
