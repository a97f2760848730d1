package store

import (
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// What is deleted from pawl.db is overwritten where its page is written anyway. Pages that
// become free as a whole are not, since every flush would have to write each of them. They
// are overwritten when an engine closes in whose life something was purged.

// A row of parts is the simplest thing that fills pages from their first byte to their last.
const (
	countFree = `PRAGMA freelist_count`
	fillPages = `INSERT INTO parts (key, data) VALUES (?, zeroblob(?))`
	dropFill  = `DELETE FROM parts WHERE key BETWEEN ? AND ?`
	fillOnce  = 250 // pages of one row
)

// eraseSoon has the next checkpoint empty the log, in which deleted content stays until
// then, and Close overwrite the free pages. The lock is held.
//
// The transaction under way deletes what nobody is to find any more. If it fails, nothing is lost by that.
func (d *Dir) eraseSoon() { d.stale, d.erase = true, true }

// overwriteFreePages fills the free pages of pawl.db with zeros: with a spill that no record
// names, which is dropped again. The next Open drops what a crash leaves of it. Nobody else
// commits any more.
//
// It takes free pages until there are none, in one transaction: rows that fill several pages
// each, and then smaller ones. When they are dropped the pages are free again, and have zeros.
func (d *Dir) overwriteFreePages() error {
	if err := d.syncBefore(); err != nil {
		return err
	}
	if err := d.db.Script(`PRAGMA synchronous=FULL`); err != nil { // nobody syncs these commits otherwise
		return err
	}
	first, last := spillKeys(d.lastSpill.Add(1))
	err := d.inTransaction(func() error {
		for key := first; ; key++ {
			free := int64(0)
			_, err := d.db.One(countFree, func(r *sqlite.Row) error { free = r.Int64(0); return nil })
			if err != nil || free == 0 {
				return err
			}
			if _, err := d.db.Exec(fillPages, key, fillSize(min(free, fillOnce))); err != nil {
				return err
			}
		}
	})
	if err != nil {
		return err
	}
	_, err = d.db.Exec(dropFill, first, last) // in a transaction of its own: the zeros are written
	return err
}

// inTransaction runs statements as one transaction.
//
// It is for the last steps of Close, when the committer has ended.
func (d *Dir) inTransaction(run func() error) error {
	if _, err := d.db.Exec(begin); err != nil {
		return err
	}
	err := run()
	if err == nil {
		_, err = d.db.Exec(commit)
	}
	if err != nil {
		_, _ = d.db.Exec(rollback) // err is what the caller has to know
	}
	return err
}

// fillSize returns how many bytes of data a row of parts needs to fill so many overflow pages
// to their last byte: bytes of a page that it does not fill would keep the erased content. See
// section 1.6 of SQLite's "Database File Format".
func fillSize(pages int64) int64 {
	const (
		overflow = index.PageSize - 4              // bytes of a record in each
		leaf     = (index.PageSize-12)*32/255 - 23 // and in the leaf, of such a record
	)
	size := leaf + pages*overflow
	header := int64(4) // its own size, and the types of both columns, the second with the size of the data
	if 2*(size-header)+12 > 1<<14-1 {
		header = 5 // that type takes three bytes in place of two
	}
	return size - header
}
