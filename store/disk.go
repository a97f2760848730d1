package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// makeDir makes a directory and those above it, as far as there are none, and
// their names durable.
//
// The names of the folders above are synced from the top: a directory whose own name is not
// durable could be lost with everything that was acknowledged in it.
func makeDir(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if above := filepath.Dir(path); above != path {
		if err := makeDir(above); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, 0o700); err != nil && !isDir(path) {
		return err
	}
	return syncAbove(path)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// syncAbove makes the name of a directory durable.
func syncAbove(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	return syncPath(filepath.Dir(path))
}

// openRegular opens a file below the directory for reading, and nothing that
// only looks like one.
//
// It never follows a link, which somebody may have laid to have the engine read or replace a file
// elsewhere, and never waits for a pipe.
func (d *Dir) openRegular(name string) (*os.File, error) {
	info, err := d.root.Lstat(name)
	if err != nil {
		folder := filepath.Dir(name)
		if at, e := d.root.Lstat(folder); e == nil && !at.IsDir() {
			err = &CorruptError{File: d.pathOf(folder), What: "it is not a directory but " + at.Mode().Type().String()}
		}
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &CorruptError{File: d.pathOf(name), What: "it is not a regular file but " + info.Mode().Type().String()}
	}
	return d.root.OpenFile(name, os.O_RDONLY|noFollow, 0)
}

// readStart returns the first bytes of a file: as many as there are, up to a
// database's header.
func (d *Dir) readStart(name string) ([]byte, error) {
	f, err := d.openRegular(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, sqlite.HeaderSize))
	_ = f.Close() // it was only read
	return data, err
}

// readFile returns a whole file.
//
// A file that has become shorter meanwhile is an error, io.ErrUnexpectedEOF.
func (d *Dir) readFile(name string) ([]byte, error) {
	f, err := d.openRegular(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close() // it was only read
		return nil, err
	}
	data := make([]byte, info.Size())
	_, err = io.ReadFull(f, data)
	_ = f.Close() // it was only read
	return data, err
}

// writeFile writes a new file.
//
// A file that is to be synced with others is written without sync, and synced later.
func (d *Dir) writeFile(name string, data []byte, sync bool) error {
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|noFollow, 0o600)
	if err != nil {
		return err
	}
	d.hook.Hit("disk.write")
	if _, err = f.Write(data); err == nil && sync {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// syncFile makes the contents of a file durable.
func (d *Dir) syncFile(name string) error {
	f, err := d.openRegular(name)
	if err != nil {
		return err
	}
	err = f.Sync()
	_ = f.Close() // it was only read
	return err
}

// syncDir makes the names in a directory durable.
func (d *Dir) syncDir(name string) error {
	f, err := d.root.Open(name)
	if err != nil {
		return err
	}
	err = f.Sync()
	_ = f.Close() // it was only read
	return err
}

// syncLog makes the commits so far durable, if they are not synced one by one. Files
// that they do not name any more may be removed only then.
//
// At PowerLoss each commit has synced it.
func (d *Dir) syncLog() error {
	if d.options.Durability != ProcessCrash {
		return nil
	}
	return d.syncFile(indexWAL)
}

// checkHeader checks that data starts like one of our databases.
func (d *Dir) checkHeader(data []byte, name string, id, version uint32) error {
	h, ok := sqlite.ParseHeader(data)
	switch {
	case len(data) == 0:
		return &CorruptError{File: d.pathOf(name), What: "it is empty"}
	case !ok:
		return &CorruptError{File: d.pathOf(name), What: "it is not a database"}
	case h.ApplicationID != id:
		return &CorruptError{File: d.pathOf(name), What: fmt.Sprintf("it belongs to another program: application_id %#x", h.ApplicationID)}
	case h.UserVersion > version, h.UserVersion > 0 && h.UserVersion < version:
		return &VersionError{File: d.pathOf(name), Version: h.UserVersion, Known: version}
	case h.UserVersion != version:
		return &CorruptError{File: d.pathOf(name), What: fmt.Sprintf("no version of pawl wrote format %d", h.UserVersion)}
	}
	return nil
}

// sumFile returns the SHA-256 of a file, and its size.
func (d *Dir) sumFile(name string) (sum [sha256.Size]byte, size int, err error) {
	f, err := d.openRegular(name)
	if err != nil {
		return sum, 0, err
	}
	h := sha256.New()
	n, err := pace.Copy(h, f)
	_ = f.Close() // it was only read
	h.Sum(sum[:0])
	return sum, int(n), err
}

func hashOf(r io.Reader) (string, error) {
	h := sha256.New()
	_, err := pace.Copy(h, r)
	return hex.EncodeToString(h.Sum(nil)), err
}
