package store

import (
	"errors"
	"fmt"

	"github.com/pawl-run/pawl/internal/index"
)

// Close waits for the flushes that were asked for, closes pawl.db and unlocks the
// directory. Commits that are under way succeed or fail with ErrClosed; a
// backup fails with it.
func (d *Dir) Close() error {
	d.close.Do(func() {
		close(d.closing)
		d.backing <- struct{}{}
		d.flusher.stopWorkers()
		d.committer.stopLoop()
		d.closed = d.closeIndex()
	})
	return d.closed
}

// closeIndex moves the log into pawl.db and writes the lock record of a directory that
// was closed, so that the next Open is quick and finds every damage. A directory that
// was not closed loses nothing.
func (d *Dir) closeIndex() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	alive := d.dead == nil
	d.dead = ErrClosed
	var err error
	if alive {
		err = typedError(d.checkpointLog())
	}
	d.hook.Hit("close.release")
	if alive && err == nil {
		err = typedError(d.sealIndex())
	}
	return errors.Join(err, d.closeHandles())
}

// sealIndex closes pawl.db and writes its hash into the lock record.
func (d *Dir) sealIndex() error {
	fingerprint, err := index.FingerprintOf(d.db)
	err = errors.Join(err, d.db.Close())
	if d.db = nil; err != nil {
		return err
	}
	hash, err := d.hashFile(indexFile)
	if err != nil {
		return err
	}
	return d.writeLockRecord(lockRecord{stateClosed, d.epoch, hash, fingerprint})
}

// checkpointLog moves everything from the write-ahead log into pawl.db.
func (d *Dir) checkpointLog() error {
	d.hook.Hit("close.checkpoint")
	if err := d.db.Script(`PRAGMA synchronous=FULL; PRAGMA wal_checkpoint(TRUNCATE);`); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	d.hook.Hit("close.mark")
	if err := d.writeLockRecord(lockRecord{state: stateClosed, epoch: d.epoch}); err != nil {
		return err
	}
	return d.db.KeepWAL(false)
}

// closeHandles closes whatever is open. Without a checkpoint before, SQLite makes one
// now if it can, of the frames that it knows to be synced, and empties the log. The file
// itself stays, because the lock record says that there is one.
func (d *Dir) closeHandles() error {
	var errs []error
	if d.db != nil {
		errs = append(errs, d.db.Script(`PRAGMA journal_size_limit=0`), d.db.Close())
	}
	if d.root != nil {
		errs = append(errs, d.root.Close())
	}
	if d.lock != nil {
		errs = append(errs, releaseLock(d.lock))
	}
	return errors.Join(errs...)
}
