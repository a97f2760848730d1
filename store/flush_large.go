package store

import (
	"os"

	"github.com/pawl-run/pawl/internal/runfile"
)

// Sizes of files in bytes.
const (
	// maxInMemory is that up to which a file is laid out in memory, which a worker keeps for the next. A larger one is
	// written to the disk row by row: fresh memory for all of it costs more than to lay it out, and the old one is
	// read a few pages at a time.
	maxInMemory = 256 << 10
	// largeFile is that from which on a file has a batch of its own.
	largeFile = 1 << 20
)

// buildOnDisk writes a file row by row, without having it in memory.
//
// There is no sync: after a crash the file is one in tmp/, which the next Open removes. It is
// hashed by reading it once more, since its first page is written last: that is what the index
// will name, whatever was written.
func (d *Dir) buildOnDisk(j *flushJob) error {
	d.hook.Hit("file.begin")
	var old *runfile.File
	if j.row.Slot != 0 {
		// Damage must not be copied into a file with a new hash, which would look whole.
		from, err := d.proveRunFile(&j.row)
		if err != nil {
			return err
		}
		defer func() { _ = from.Close() }() // it is only read
		if old, err = runfile.OpenAt(from, j.row.FileSize); err != nil {
			return err
		}
	}
	to, err := d.root.OpenFile(j.tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|noFollow, 0o600)
	if err != nil {
		return err
	}
	d.hook.Hit("disk.write")
	err = runfile.WriteFile(to, old, func(to runfile.Target) error { return d.fillFile(to, j) })
	if closed := to.Close(); err == nil {
		err = closed
	}
	if err == nil {
		j.hash, j.size, err = d.sumFile(j.tmp)
	}
	return err
}
