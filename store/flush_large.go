package store

import (
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// largeFile is the size in bytes from which on a run's file is not built in memory
// but on the disk, page by page: to copy it at once, into fresh memory, would hold
// other runs up for tens of milliseconds.
const largeFile = 1 << 20

// largePragmas prepare a database that nobody trusts before it is synced and named.
const largePragmas = `PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE; PRAGMA trusted_schema=OFF; PRAGMA cache_size=-4096;`

// buildOnDisk writes a large file, page by page.
func (d *Dir) buildOnDisk(j *flushJob) error {
	d.hook.Hit("file.begin")
	if err := d.startOnDisk(j); err != nil {
		return err
	}
	c, err := sqlite.Open(filepath.Join(filepath.Dir(d.lockPath), j.tmp), largePragmas)
	if err != nil {
		return err
	}
	_, err = c.Exec(begin)
	if err == nil {
		err = d.fillFile(c, j)
	}
	if err == nil {
		_, err = c.Exec(commit)
	}
	if closed := c.Close(); err == nil {
		err = closed
	}
	if err == nil {
		j.hash, j.size, err = d.sumFile(j.tmp)
	}
	return err
}

// startOnDisk writes the file to begin with: a copy of the old file, or an empty
// database.
func (d *Dir) startOnDisk(j *flushJob) error {
	if j.row.Slot != 0 {
		return d.copyRunFile(&j.row, j.tmp)
	}
	data, err := runfile.New()
	if err != nil {
		return err
	}
	return d.writeFile(j.tmp, data, false)
}

// copyRunFile copies the file that a row names, and proves that it is what was
// written.
func (d *Dir) copyRunFile(r *index.Row, name string) error {
	head, err := d.readStart(r.File)
	if err == nil {
		err = d.checkHeader(head, r.File, runfile.ID, runfile.Version)
	}
	if err != nil {
		return d.fileError(r, err)
	}
	from, err := d.openRegular(r.File)
	if err != nil {
		return d.fileError(r, err)
	}
	defer func() { _ = from.Close() }() // it is only read
	info, err := from.Stat()
	switch {
	case err != nil:
		return err
	case info.Size() < r.FileSize:
		return d.fileError(r, io.ErrUnexpectedEOF)
	case info.Size() > r.FileSize:
		return d.fileError(r, errChanged)
	}
	to, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|noFollow, 0o600)
	if err != nil {
		return err
	}
	d.hook.Hit("disk.write")
	sum := sha256.New()
	_, err = pace.Copy(io.MultiWriter(sum, to), from)
	if closed := to.Close(); err == nil {
		err = closed
	}
	if err == nil && string(sum.Sum(nil)) != string(r.FileHash) {
		err = d.fileError(r, errChanged)
	}
	return err
}
