package blob

import (
	"io"
	"os"
	"syscall"
)

// The system's errors for a full disk, and for a broken one.
const (
	errFull = syscall.ENOSPC
	errDisk = syscall.EIO
)

// full returns what writes n bytes to a file and then finds the disk full.
func full(n int) func(*os.File) io.Writer {
	return func(f *os.File) io.Writer { return &fullDisk{f, n} }
}

type fullDisk struct {
	file *os.File
	room int
}

func (d *fullDisk) Write(p []byte) (int, error) {
	n, err := d.file.Write(p[:min(len(p), d.room)])
	d.room -= n
	if err == nil && n < len(p) {
		err = &os.PathError{Op: "write", Path: d.file.Name(), Err: errFull}
	}
	return n, err
}

// short writes less than it was given and does not say so.
type short struct{ file *os.File }

func (s short) Write(p []byte) (int, error) { return s.file.Write(p[:len(p)-1]) }

// idle never reads anything and never ends.
type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }
