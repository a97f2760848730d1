//go:build !unix

package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/pawl-run/pawl/internal/below"
)

const noFollow = 0

// takeLock fails: there is no flock here.
func takeLock(_ context.Context, path string, _ lockWish) (*os.File, error) {
	return nil, fmt.Errorf("lock %s: %w", path, errors.ErrUnsupported)
}

// takeSharedLock fails likewise.
func takeSharedLock(ctx context.Context, path string, wish lockWish) (*os.File, error) {
	return takeLock(ctx, path, wish)
}

// A lockGate is never shut here, where no lock is ever taken.
type lockGate struct{ dir string }

func (g *lockGate) shut()        {}
func (g *lockGate) open()        {}
func (g *lockGate) isShut() bool { return false }

// isFileAt reports whether a file is what a path names.
func isFileAt(path string, file os.FileInfo) (bool, error) {
	now, err := os.Lstat(path)
	return err == nil && os.SameFile(now, file), err
}

// linkCount returns how many names a file has, as far as can be known here.
func linkCount(os.FileInfo) uint64 { return 1 }

// releaseLock closes the file.
func releaseLock(f *os.File) error { return f.Close() }

// ownerOf returns -1: this system has no ids of users.
func ownerOf(fs.FileInfo) int { return -1 }

// removeFiles removes files of a folder that may be there, by its name in a folder that is open.
func removeFiles(folders *os.File, folder string, names []string) error {
	return below.RemoveFiles(folders, folder, names)
}
