package refusal

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// CheckNotNegative returns ErrInvalid if a number is negative, with its name behind a prefix.
func CheckNotNegative(prefix string, numbers map[string]int64) error {
	var all []error
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		if n := numbers[name]; n < 0 {
			all = append(all, fmt.Errorf("%w: %s%s is %d: it may not be negative; 0 is the default", ErrInvalid, prefix, name, n))
		}
	}
	return errors.Join(all...)
}

// CheckFolder returns ErrInvalid if a path cannot be that of an engine directory.
func CheckFolder(path string) error {
	if path == "" {
		return fmt.Errorf("%w: the path of the engine directory is empty; give it a folder of its own, such as data", ErrInvalid)
	}
	return checkPath(path)
}

// CheckNewFolder returns ErrInvalid if a path cannot be that of a folder that is to be made: its parent has to be there.
func CheckNewFolder(path string) error {
	if path == "" {
		return fmt.Errorf("%w: the path of the folder that is to be made is empty", ErrInvalid)
	}
	parent := filepath.Dir(filepath.Clean(path))
	if _, err := os.Stat(parent); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s: make the parent folder first: %w", ErrInvalid, path, err)
	}
	return checkPath(path)
}

// checkPath returns ErrInvalid if a path has a NUL, or is that of a file or of something in one.
func checkPath(path string) error {
	if strings.ContainsRune(path, 0) {
		return fmt.Errorf("%w: the path %q has a NUL: %w", ErrInvalid, path, syscall.EINVAL)
	}
	switch info, err := os.Stat(path); {
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%w: %s: a part of the path is a file; give a folder: %w", ErrInvalid, path, err)
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%w: %s: it is a file; give a folder", ErrInvalid, path)
	}
	return nil
}
