package below

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// WriteOutput writes what was made of the file input to a file that somebody has named, which has what it had before if that fails. The file that
// was read is refused, and so is one that may not be written. A device, a pipe, and a file that cannot be replaced, since it is mounted or its
// folder cannot be written to, get it at once. Errors name the file itself.
func WriteOutput(path string, data []byte, input string) error {
	old, err := os.Stat(path)
	if read, unread := os.Stat(input); err == nil && unread == nil && os.SameFile(old, read) {
		return fmt.Errorf("%s is what was read: name another file", path)
	}
	at := path
	switch _, missing := os.Lstat(path); {
	case err == nil && old.Mode().IsRegular():
		at, err = filepath.EvalSymlinks(path) // a link goes on leading to the file
	case errors.Is(missing, fs.ErrNotExist):
		err = nil
	default:
		return os.WriteFile(path, data, 0o644)
	}
	if err == nil && old != nil {
		err = checkWritable(path)
	}
	if err != nil {
		return err
	}
	return replaceFile(path, at, data, old)
}

// replaceFile puts another file in the place of the one at, which path leads to, with the mode of old if there was one. If that cannot be done, the
// file itself is written, but not for lack of room.
func replaceFile(path, at string, data []byte, old fs.FileInfo) error {
	beside := filepath.Join(filepath.Dir(at), ".pawl-"+rand.Text()+".tmp")
	f, err := os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EROFS) {
		return os.WriteFile(path, data, 0o644)
	}
	if err != nil {
		return errorAt(path, err)
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	var kept error
	if old != nil {
		kept = f.Chmod(old.Mode().Perm())
	}
	if err = cmp.Or(err, f.Close()); err == nil && kept == nil {
		kept = os.Rename(beside, at)
	}
	if err == nil && kept == nil {
		return nil
	}
	_ = os.Remove(beside)
	if err != nil {
		return errorAt(path, err)
	}
	return os.WriteFile(path, data, 0o644)
}

// checkWritable refuses a file that may not be written, which a folder would let be replaced all the same.
func checkWritable(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// errorAt returns the error of a file beside another one as one of that.
func errorAt(path string, err error) error {
	if of := (*fs.PathError)(nil); errors.As(err, &of) {
		return &fs.PathError{Op: of.Op, Path: path, Err: of.Err}
	}
	return err
}

// SyncFolder makes the names in a folder durable, where folders can be synced.
func SyncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if closed := d.Close(); err == nil {
		err = closed
	}
	return err
}
