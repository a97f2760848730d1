//go:build !unix

package store

import (
	"errors"
	"fmt"
	"os"
)

const noFollow = 0

// lock fails: there is no flock here.
func lock(path string) (*os.File, error) {
	return nil, fmt.Errorf("lock %s: %w", path, errors.ErrUnsupported)
}

// lockShared fails likewise.
func lockShared(path string) (*os.File, error) { return lock(path) }

// links returns how many names a file has, as far as can be known here.
func links(os.FileInfo) uint64 { return 1 }

// unlock closes the file.
func unlock(f *os.File) error { return f.Close() }
