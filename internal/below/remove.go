package below

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// RemoveFiles removes files of a folder that may be there, by its name in a folder that is open. It follows no link, and removes no folder.
// The error wraps [ErrOutside] if a link or another folder has come in place of one of the two, or what the system says.
func RemoveFiles(folders *os.File, folder string, names []string) error {
	above, err := os.OpenRoot(folders.Name())
	if err != nil {
		return err
	}
	defer func() { _ = above.Close() }()
	if want, err := folders.Stat(); err != nil || !isFolder(above, want) {
		return fmt.Errorf("open %s: it is %w, as another folder has come in its place: %w", folders.Name(), ErrOutside, err)
	}
	want, err := above.Lstat(folder)
	if err != nil {
		return missingIsFine(err)
	}
	inside, err := above.OpenRoot(folder) // follows a link to a folder below the one above
	if err != nil {
		return err
	}
	defer func() { _ = inside.Close() }()
	if !isFolder(inside, want) {
		return fmt.Errorf("open %s: it is %w, behind a link", folder, ErrOutside)
	}
	for _, name := range names {
		if info, failed := inside.Lstat(name); failed == nil && info.IsDir() {
			err = errors.Join(err, fmt.Errorf("remove %s: it is %s and %w", name, kindOf(info.Mode()), ErrIrregular))
			continue
		}
		err = errors.Join(err, missingIsFine(inside.Remove(name)))
	}
	return err
}

// isFolder reports whether an open folder is the one that is described so.
func isFolder(folder *os.Root, want fs.FileInfo) bool {
	now, err := folder.Stat(".")
	return err == nil && os.SameFile(want, now)
}

// missingIsFine returns no error for a file that is not there.
func missingIsFine(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
