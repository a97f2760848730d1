package store

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// Data that are deleted from pawl.db are overwritten where their page is written anyway. They are left in the logs, and in pages that become
// free as a whole, since every flush would have to write each of them. Where data were deleted for good, such as by a purge, a goroutine
// erases them there, eraseAfter later; Close does the rest of it.
//
// Free pages are given back: SQLite puts pages of the end in their place, some at a time, and the file becomes shorter. Where that
// takes long, or pawl.db was made before it could be done, they are overwritten with zeros, and stay.
const (
	// eraseAfter is how long what was deleted may stay in the logs and in free pages before they are looked at. A purge after a purge
	// waits for the same look.
	eraseAfter = 10 * time.Second
	// eraseShare is how much of the time is used for it at most: between two looks there is so many times as much as the last one took.
	eraseShare = 10

	vacuumOnce = 64                    // pages that one transaction gives back
	vacuumSlow = 20 * time.Millisecond // a transaction that takes longer is the last one
	vacuumLong = 2 * time.Second       // for which Close gives pages back
	vacuumFrom = 8                     // Close gives them back if one in so many is free, or if they have what was deleted for good
	rebuiltMax = 32 << 10              // pages that a pawl.db has at most, without the free ones, that Close rebuilds: 64 MB

	countFree    = `PRAGMA freelist_count`
	countPages   = `PRAGMA page_count`
	getVacuum    = `PRAGMA auto_vacuum`
	giveBack     = `PRAGMA incremental_vacuum(64)`
	rebuildIndex = `PRAGMA synchronous=FULL; PRAGMA auto_vacuum=INCREMENTAL; VACUUM;`
)

// A row of parts is the simplest thing that fills pages from their first byte to their last.
const (
	fillPages = `INSERT INTO parts (key, data) VALUES (?, zeroblob(?))`
	fillOnce  = 250  // pages of one row, and of one transaction
	fillMost  = 4000 // pages that are overwritten besides twice as many as are free at first
)

// An eraser erases what was deleted for good, while the engine goes on.
type eraser struct {
	wake    chan struct{}  // of capacity 1
	running sync.WaitGroup // its goroutine
}

// eraseSoon has what the transaction under way deletes erased: nobody is to find it any more. If the transaction fails,
// nothing is lost by that. The lock is held.
func (d *Dir) eraseSoon() {
	d.stale, d.erase, d.eraseTail = true, true, true
	d.wakeEraser()
}

// loadVacuum finds out whether pawl.db gives pages back.
func (d *Dir) loadVacuum() error {
	const incremental = 2
	mode, err := numberOf(d.db, getVacuum)
	d.vacuums = mode == incremental
	return err
}

func (d *Dir) wakeEraser() {
	select {
	case d.eraser.wake <- struct{}{}:
	default:
	}
}

// startEraser begins the goroutine, as a last step of Open. It erases first the data that the last engine has deleted before it died.
func (d *Dir) startEraser() {
	d.mu.Lock()
	if d.erase {
		d.stale = true
		d.wakeEraser()
	}
	d.mu.Unlock()
	d.eraser.running.Go(d.eraseLoop) // until Close begins
}

// eraseLoop erases, whenever that was asked for, until Close begins.
func (d *Dir) eraseLoop() {
	for pause := d.hook.EraseAfter(eraseAfter); ; {
		select {
		case <-d.eraser.wake:
		case <-d.closing:
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-d.closing:
			timer.Stop()
			return
		}
		begin := time.Now()
		var err error
		if d.hasDeleted() {
			err = d.eraseDeleted()
		}
		err = cmp.Or(err, d.removeLeft())
		if err != nil && !errors.Is(err, errClosing) {
			d.options.Logger.Warn("what was purged is not erased yet", "file", d.pathOf(indexFile), "error", err)
		}
		if d.Err() != nil {
			return
		}
		if d.hasDeleted() {
			d.wakeEraser()
		}
		pause = max(d.hook.EraseAfter(eraseAfter), eraseShare*time.Since(begin))
	}
}

// hasDeleted reports whether something is still to be erased.
func (d *Dir) hasDeleted() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.erase || d.stale
}

// errClosing says that Close does the rest.
var errClosing = errors.New("the directory is being closed")

// isClosing reports whether Close has begun.
func (d *Dir) isClosing() bool {
	select {
	case <-d.closing:
		return true
	default:
		return false
	}
}

// eraseDeleted erases what was deleted before it is called: first in the free pages of pawl.db, and then, by a checkpoint, in the logs, which
// have the pages as they were. Data that are deleted meanwhile are erased the next time.
func (d *Dir) eraseDeleted() error {
	d.mu.Lock()
	erase := d.erase
	d.erase = false
	d.mu.Unlock()
	var err error
	if erase {
		err = d.clearFreePages()
	}
	if err == nil {
		err = d.emptyLogs()
	}
	if err != nil && erase {
		d.mu.Lock()
		d.erase = true
		d.mu.Unlock()
	}
	return err
}

// emptyLogs moves everything into pawl.db, so that nothing is left in the logs. The longest work is done while others commit.
func (d *Dir) emptyLogs() error {
	if err := d.moveBehind(context.Background()); err != nil {
		return err
	}
	d.mu.Lock()
	made := d.checkpoints.made
	d.mu.Unlock()
	if err := d.syncLog(); err != nil {
		return err
	}
	sums := logSums{}
	if sums.readLog(d) != nil {
		sums = logSums{} // the checkpoint reads it, and says what is wrong
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead != nil {
		return d.dead
	}
	if d.checkpoints.made != made {
		sums = logSums{} // of a log that is not there any more
	}
	d.stale = true // free pages were written since it was so
	d.makeCheckpoint(&sums)
	return d.dead
}

// clearFreePages leaves no free page in pawl.db that has anything of what was deleted. It ends with errClosing when Close begins.
func (d *Dir) clearFreePages() error {
	if d.vacuums {
		if err := d.giveBackPages(func(last time.Duration) bool { return last > vacuumSlow || d.isClosing() }); err != nil {
			return err
		}
	}
	err := d.overwriteFreePages(d.isClosing)
	if err == nil && d.isClosing() {
		err = errClosing
	}
	return err
}

// giveBackPages gives the free pages of pawl.db back, some in each transaction, until there are none, or until stop says so, which is
// told how long the last one took.
//
// That time goes into finding each page of the end in the list of those that are free: it grows with the list.
func (d *Dir) giveBackPages(stop func(last time.Duration) bool) error {
	took := time.Duration(0)
	for more := true; more && !stop(took); {
		err := d.updateLocally(func(db *sqlite.Conn) error {
			begin, given := time.Now(), 0
			err := db.Each(giveBack, func(*sqlite.Row) error { given++; return nil })
			more, took = given == vacuumOnce, time.Since(begin)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// clearAtClose gives free pages back, for a while, when Close has begun, and overwrites those that are left if they may have what was
// deleted for good. Others still commit, but nobody waits for them.
func (d *Dir) clearAtClose() error {
	d.mu.Lock()
	erase := d.erase
	d.mu.Unlock()
	var free, pages int64
	err := d.readIndex(func(db *sqlite.Conn) (err error) {
		if free, err = numberOf(db, countFree); err == nil {
			pages, err = numberOf(db, countPages)
		}
		return err
	})
	if err != nil || free == 0 || !erase && free*vacuumFrom < pages {
		return err
	}
	if !d.vacuums && free*2 >= pages && pages-free <= rebuiltMax {
		return d.rebuildIndex()
	}
	if d.vacuums {
		long := time.Now().Add(vacuumLong)
		err = d.giveBackPages(func(time.Duration) bool { return time.Now().After(long) })
	}
	if err == nil && erase {
		err = d.overwriteFreePages(func() bool { return false })
	}
	return err
}

// rebuildIndex writes a pawl.db anew that was made before pages could be given back, and so that they can be. Most of its pages are
// free, so that this takes no longer than to overwrite those.
func (d *Dir) rebuildIndex() error {
	return d.readIndex(func(db *sqlite.Conn) error {
		if err := d.checkOwner(); err != nil {
			return err
		}
		if err := d.syncBefore(); err != nil {
			return err
		}
		return db.Script(rebuildIndex)
	})
}

// overwriteFreePages fills the free pages of pawl.db with zeros, until there are none: with a spill that no record
// names, which is dropped again. The next Open drops what a crash leaves of it.
//
// It takes some free pages in each transaction, by a row that fills several pages, and smaller ones at the end. When they are dropped
// the pages are free again, and have zeros. Others free pages meanwhile, which are taken too, but not without end.
func (d *Dir) overwriteFreePages(stop func() bool) error {
	spill := d.lastSpill.Add(1)
	first, last := spillKeys(spill)
	free, taken, most := int64(1), int64(0), int64(0)
	var err error
	for key := first; free > 0 && key < last && err == nil && !stop(); key++ {
		err = d.updateLocally(func(db *sqlite.Conn) (err error) {
			if free, err = numberOf(db, countFree); err != nil || free == 0 {
				return err
			}
			if most == 0 {
				most = fillMost + 2*free
			}
			if taken > most {
				return refuseRequest("%d free pages were overwritten, and more became free", taken)
			}
			_, err = db.Exec(fillPages, key, fillSize(min(free, fillOnce)))
			return err
		})
		taken += min(free, fillOnce)
	}
	d.dropSpills([]int64{spill})
	return err
}

// numberOf returns the number that a pragma answers.
func numberOf(db *sqlite.Conn, pragma string) (n int64, err error) {
	_, err = db.One(pragma, func(r *sqlite.Row) error { n = r.Int64(0); return nil })
	return n, err
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
