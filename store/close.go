package store

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/pace"
)

// Close waits for the flushes that were asked for, closes pawl.db and unlocks the
// directory. Commits that are under way succeed or fail with ErrClosed; a
// backup fails with it. If somebody has put another file in the place of pawl.db, or taken it
// away, Close keeps what was open as pawl.db.saved, where Open finds it once that is renamed
// to pawl.db, and fails with ErrCorrupt. On a full disk it may fail with ErrNoSpace: what has found
// no room in pawl.db is in the redo log, whence the next Open takes it.
//
// The order goes by what needs what. Goroutines that copy the directory are told to end, and a backup that is under way is waited for; the eraser and
// the flusher end next, since they commit; free pages are given back, for a while; then only the requests in the queue are committed, and the
// committer ends; the follower gets the last transactions; and pawl.db is closed when nobody uses it. A second Close waits for the first one and
// returns the same.
//
// An engine has ended its actors before, so that there is nobody whose commit could be refused; a
// caller that comes nevertheless gets ErrClosed. Nothing that was acknowledged depends on Close.
func (d *Dir) Close() error {
	d.close.Do(func() {
		close(d.closing)
		d.EndLog()
		d.sweeping.Wait() // else a directory that was closed would keep what a crash has left
		d.backing <- struct{}{}
		d.eraser.running.Wait()
		d.flusher.stopWorkers()
		d.tidyAtClose()
		d.committer.stopLoop()
		d.waitForCommits()
		d.checkpoints.running.Wait()
		d.redo.running.Wait()
		d.tapes.waitForEnd()
		d.leaveLog()
		d.closed = d.closeIndex()
	})
	return d.closed
}

// tidyAtClose deletes definitions that are not used, and gives free pages back. Close succeeds without it, so that the log is told of
// what fails, unless that is the failure of the Dir itself.
func (d *Dir) tidyAtClose() {
	warn := func(message string, err error) {
		if err != nil && d.Err() == nil {
			d.options.Logger.Warn(message, "file", d.pathOf(indexFile), "error", err)
		}
	}
	warn("files of runs that were purged are left behind", d.removeLeft())
	warn("unused definitions are not deleted yet", d.collectDefinitions(true))
	warn("free pages are not given back, and may hold what was purged", d.clearAtClose())
}

// waitForCommits returns when nobody commits by itself any more, who may have begun before the committer was stopped, and
// could begin a goroutine at its end.
func (d *Dir) waitForCommits() {
	d.mu.Lock()
	d.mu.Unlock() //nolint:gocritic,staticcheck // whoever has it ends
}

// closeIndex moves the log into pawl.db and writes the lock record of a directory that
// was closed, so that the next Open is quick and finds every damage. A directory that
// was not closed loses nothing.
//
// A crash leaves, before the log is moved, a directory that was not closed; behind that, a
// pawl.db that has everything, with a lock record that first has no hash, and then has one.
//
// A Dir that has failed, or was fenced, moves nothing and writes no record: what it has in memory
// is not to be trusted, or not its own.
func (d *Dir) closeIndex() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	alive := d.dead == nil
	var err error
	if alive {
		if err = d.disarmRedo(); err != nil {
			alive = false // the next Open takes what the redo log has
		}
	}
	d.dead = ErrClosed
	if alive && d.eraseTail && (d.remote != nil || d.logAway) {
		(&logTail{dir: d}).erase()
	}
	if alive {
		err = d.checkpointLog()
	}
	err = errors.Join(typedError(err), d.closeLog())
	d.hook.Hit("close.release")
	if alive && err == nil {
		err = typedError(d.sealIndex())
		d.makeReserve() // of what a purge has given back
	}
	return errors.Join(err, d.closeHandles())
}

// sealIndex closes pawl.db and writes its hash into the lock record.
//
// The hash is that of the bytes on the disk, and not of what SQLite believes to have written.
// Between the closing by SQLite and the hashing no other engine can come, since the lock file is
// still held.
func (d *Dir) sealIndex() error {
	fingerprint, err := index.FingerprintOf(d.db)
	if err != nil {
		return err
	}
	seal := func(hash string) error { return d.writeLockRecord(lockRecord{stateClosed, d.epoch, hash, fingerprint}) }
	// It is opened while SQLite has it, so that no other file can be hashed in its place,
	// and closed after SQLite has closed it, which keeps SQLite's lock until then.
	f, err := d.openHeldIndex()
	if errors.Is(err, errExchanged) {
		return d.saveHeldIndex(seal)
	}
	err = errors.Join(err, d.db.Close())
	d.db = nil
	if err == nil {
		var hash string
		if hash, err = hashOf(f); err == nil {
			err = seal(hash)
		}
		if err == nil {
			err = errors.Join(d.dropMark(), d.closeRedo(true))
		}
	}
	if f != nil {
		_ = f.Close() // it was only read
	}
	return err
}

// errExchanged says that another file has the name of the pawl.db that is open.
var errExchanged = errors.New("exchanged")

// openHeldIndex opens the pawl.db that SQLite has open, or fails with errExchanged.
//
// It compares the identity of the file with the one that was opened, because the name may stand
// for another one by now.
func (d *Dir) openHeldIndex() (*os.File, error) {
	f, err := d.openRegular(indexFile)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrCorrupt) {
		return nil, errExchanged
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !os.SameFile(info, d.file) {
		err = errExchanged
	}
	if err != nil {
		_ = f.Close() // nobody has read it; SQLite's lock, if it is of this file, goes with the error
		return nil, err
	}
	return f, nil
}

// savedIndex is where what was open is kept if another file has the name pawl.db.
const savedIndex = indexFile + ".saved"

// saveHeldIndex keeps the pawl.db that is open, which has no name any more or another one,
// and seals it: the directory cannot be opened before it has its name again.
//
// The bytes come from SQLite, which still has the file open that has no name. The lock record
// gets their hash, so that the file which now has the name pawl.db is refused by the next Open.
func (d *Dir) saveHeldIndex(seal func(hash string) error) error {
	data, err := d.db.Serialize()
	if err == nil {
		err = d.writeFile(savedIndex, data, true)
	}
	if err == nil {
		err = d.syncDir(".")
	}
	if err == nil {
		sum := pace.Sum256(data)
		err = seal(hex.EncodeToString(sum[:]))
	}
	what := "another file has the name of the one that was open"
	if err == nil {
		what += ", which is " + savedIndex + " now: rename that one to " + indexFile
	}
	return &CorruptError{File: d.pathOf(indexFile), What: what, Err: err}
}

// checkpointLog moves everything from the write-ahead log into pawl.db.
//
// TRUNCATE leaves an empty log. Only when the lock record says that none is needed may SQLite
// remove it: in the other order a crash would leave a directory whose log seems to be lost.
func (d *Dir) checkpointLog() error {
	d.hook.Hit("close.checkpoint")
	if err := d.checkpointAndMark(`PRAGMA synchronous=FULL; PRAGMA wal_checkpoint(TRUNCATE);`, &logSums{}); err != nil {
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
//
// The lock comes last: until then nobody else opens what is being closed here.
func (d *Dir) closeHandles() error {
	var errs []error
	errs = append(errs, d.closeLog(), d.closeRedo(false))
	if d.db != nil {
		errs = append(errs, d.db.Script(`PRAGMA journal_size_limit=0`), d.db.Close())
	}
	if d.remote != nil && d.remote.tail != nil {
		errs = append(errs, d.remote.tail.closeFile())
	}
	if d.sums != nil {
		errs = append(errs, d.sums.Close())
	}
	if d.root != nil {
		errs = append(errs, d.root.Close())
	}
	if d.lock != nil {
		errs = append(errs, releaseLock(d.lock))
	}
	return errors.Join(errs...)
}
