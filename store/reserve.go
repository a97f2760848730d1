package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/pawl-run/pawl/internal/index"
)

// A directory keeps some room of the disk for itself, in a file with nothing in it. On a disk that is full nobody can
// open a directory: SQLite needs some room to read pawl.db, and a commit needs some in its log. So nothing could be purged,
// where a purge is what would help. An opening for maintenance that finds no room gives the reserve up. Close makes it
// again where there is room by then, as does each Open.
//
// An engine that goes on does not get it: its runs would use it up within moments.

const (
	// reserveFile lies in the folder that each Open empties of everything else: in no copy of the directory, and of no
	// use to anybody.
	reserveFile = tmpDir + "/" + index.ReserveFile
	// reserveBytes is more than an opening and a closing take, and enough for some purges in between; each purge gives more
	// back than it takes.
	reserveBytes = 256 << 10
)

// makeReserve makes the reserve, if it is not there. Without room for it the directory has no reserve.
func (d *Dir) makeReserve() {
	if d.options.building {
		return
	}
	_, err := d.root.Lstat(reserveFile)
	if errors.Is(err, fs.ErrNotExist) {
		err = d.writeReserve()
	}
	if err != nil {
		d.options.Logger.Warn("nothing is kept in reserve for commands on a full disk", "file", d.pathOf(reserveFile), "error", err)
	}
}

// writeReserve writes the file of the reserve, or leaves none.
func (d *Dir) writeReserve() error {
	f, err := d.root.OpenFile(reserveFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL|noFollow, 0o600)
	if err != nil {
		return err
	}
	if err = errors.Join(fillReserve(f), f.Close()); err != nil {
		err = errors.Join(err, d.root.Remove(reserveFile)) // it is not whole, and the next Open looks again
	}
	return err
}

// fillReserve gives a file its blocks on the disk.
func fillReserve(f *os.File) error {
	err := allocateBlocks(f, reserveBytes)
	info, failed := f.Stat()
	if err == nil && failed == nil && info.Size() == reserveBytes {
		return nil
	}
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	_, err = f.Write(make([]byte, reserveBytes)) // where blocks cannot be asked for
	return err
}

// dropReserve gives the reserve up, and fails with ErrNoSpace if it is missing.
func (d *Dir) dropReserve() error {
	info, err := d.root.Lstat(reserveFile)
	if err == nil && info.Mode().IsRegular() && info.Size() > 0 {
		err = d.root.Remove(reserveFile)
		d.reserveGiven = err == nil
		return err
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%w, and nothing is kept in reserve: make some KiB of room elsewhere on this disk", ErrNoSpace)
}

// clearTmp makes an empty folder for files that are being built, but for the reserve.
func (d *Dir) clearTmp() error {
	info, err := d.root.Lstat(tmpDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil || !info.IsDir() {
		if err := d.root.RemoveAll(tmpDir); err != nil { // a link may lead anywhere
			return err
		}
		return d.root.Mkdir(tmpDir, 0o700)
	}
	entries, err := d.listFolder(tmpDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(tmpDir, e.Name())
		if name == reserveFile && e.Type().IsRegular() {
			continue
		}
		if err := d.root.RemoveAll(name); err != nil {
			return err
		}
	}
	return nil
}
