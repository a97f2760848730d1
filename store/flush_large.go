package store

import (
	"os"
	"path/filepath"

	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// largeFile is the size in bytes from which on a run's file is not built in memory
// but on the disk, page by page: to copy it at once, into fresh memory, would hold
// other runs up for tens of milliseconds. It is read and copied without being in memory
// as well.
const largeFile = 1 << 20

// largePragmas prepare a database that nobody trusts before it is synced and named.
//
// There is no journal and no sync: after a crash the file is one in tmp/, which the next Open
// removes.
const largePragmas = `PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE; PRAGMA trusted_schema=OFF; PRAGMA cache_size=-4096;`

// buildOnDisk writes a large file, page by page.
//
// The file is hashed when SQLite has closed it, by reading it once more: that is what the index
// will name, whatever was written.
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
		err = d.fillFile(runfile.InDatabase(c), j)
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

// startOnDisk writes the file to begin with: a copy of the old file, or what SQLite would
// have made of a small one, or an empty database.
//
// A file that was small until now is made anew in the layout that SQLite can go on with.
func (d *Dir) startOnDisk(j *flushJob) error {
	if j.row.Slot != 0 && j.row.FileSize > largeFile {
		return d.copyRunFile(&j.row, func() (*os.File, error) {
			d.hook.Hit("disk.write")
			return d.root.OpenFile(j.tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|noFollow, 0o600)
		})
	}
	data := runfile.New()
	if j.row.Slot != 0 {
		old, err := d.readRunFile(&j.row)
		if err != nil {
			return err
		}
		if data, err = runfile.Enlarge(old); err != nil {
			return err
		}
	}
	return d.writeFile(j.tmp, data, false)
}
