//go:build !unix

package store

import (
	"errors"
	"fmt"
	"os"
)

const noFollow = 0

// takeLock fails: there is no flock here.
func takeLock(path string) (*os.File, error) {
	return nil, fmt.Errorf("lock %s: %w", path, errors.ErrUnsupported)
}

// takeSharedLock fails likewise.
func takeSharedLock(path string) (*os.File, error) { return takeLock(path) }

// isFileAt reports whether a file is what a path names.
func isFileAt(path string, file os.FileInfo) (bool, error) {
	now, err := os.Lstat(path)
	return err == nil && os.SameFile(now, file), err
}

// linkCount returns how many names a file has, as far as can be known here.
func linkCount(os.FileInfo) uint64 { return 1 }

// releaseLock closes the file.
func releaseLock(f *os.File) error { return f.Close() }
