package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// A checkpoint moves the write-ahead log into pawl.db, so that the next commit begins the log
// anew. Commits wait for it. The longest work is therefore done before, while they go on: the
// log is synced, and its pages are read and summed for the mark.

// longLog frames are some 25 MB. The longer the log may be, the fewer pages are moved for as many
// commits, because pages that changed often are moved once; and the longer an Open after a crash
// takes, which reads it.
const (
	// longLog is how many frames the log has before a checkpoint is prepared.
	longLog = 12_000
	// staleLog is how many it has if there is content among them that was deleted since.
	staleLog = 4000
	// scarceLog is how many it has on a disk that is full: see reserve.go.
	scarceLog = 8
	// maxLogs times as many it has before commits wait for the preparation too.
	maxLogs = 3
)

// longLog returns how many frames the log has before a checkpoint is prepared.
//
// After something was deleted for good, such as by a purge, the log should not keep it for long.
func (d *Dir) longLog() int {
	if d.reserveGiven {
		return scarceLog
	}
	if d.stale {
		return int(d.hook.LogFrames(staleLog))
	}
	return int(d.hook.LogFrames(longLog))
}

// A checkpointer says how the log stands. The lock of the directory guards it, but for running.
//
// frames counts what this life has written since the last checkpoint, and not what an earlier one
// has left in the log.
type checkpointer struct {
	frames    int            // of the log, about
	made      int64          // how many were made, or tried
	preparing bool           // a goroutine prepares a checkpoint
	running   sync.WaitGroup // that goroutine
}

// countFrames counts what was written into the log since the last call.
//
// If SQLite cannot tell, the log counts as very long, so that the next commit makes a checkpoint,
// whose error says what is wrong.
func (d *Dir) countFrames() {
	n, err := d.db.Written()
	if d.checkpoints.frames += n; err != nil {
		d.checkpoints.frames = maxLogs * d.longLog()
	}
	d.reserveLog()
}

// needsCheckpoint reports whether the committer has to see to the length of the log.
//
// A caller that could commit by itself leaves it to the committer then.
func (d *Dir) needsCheckpoint() bool {
	c := &d.checkpoints
	return c.frames >= maxLogs*d.longLog() || c.frames >= d.longLog() && !c.preparing
}

// startCheckpoint has a checkpoint made if the log is long: by a goroutine, which prepares it
// while commits go on, or at once if the log has become very long.
//
// The second limit is for commits that come faster than the preparation reads: without it the log
// would grow for as long as they do. The lock is held.
func (d *Dir) startCheckpoint() {
	d.countFrames()
	switch {
	case d.checkpoints.frames >= maxLogs*d.longLog():
		d.makeCheckpoint(&logSums{})
	case d.checkpoints.frames >= d.longLog() && !d.checkpoints.preparing:
		d.checkpoints.preparing = true
		d.checkpoints.running.Go(d.prepareCheckpoint)
	}
}

// prepareCheckpoint makes a checkpoint that commits wait for as shortly as it can be.
//
// It reads the log without the lock, up to where it ends at that moment, and takes the lock for
// the rest: the frames that were appended since, and the move itself. The frames that it has
// read stay as they are, since only the end of the log changes. Another goroutine may have made
// a checkpoint meanwhile, because the log has become very long: then there is nothing to do.
func (d *Dir) prepareCheckpoint() {
	sums := logSums{}
	err := d.moveIfStale()
	if err == nil {
		err = d.syncLog()
	}
	if err == nil {
		err = sums.readLog(d)
	}
	d.hook.Hit("checkpoint.prepared")
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.checkpoints.preparing = false; d.dead != nil || d.checkpoints.frames < d.longLog() { // somebody else has made one
		return
	}
	if err != nil {
		d.options.Logger.Warn("a checkpoint could not be prepared", "file", d.pathOf(indexWAL), "error", err)
		sums = logSums{}
	}
	d.makeCheckpoint(&sums)
}

// moveIfStale moves what is in the redo log, if that is to be emptied because there is content in it that was deleted
// since: then little is left to be moved while commits wait.
func (d *Dir) moveIfStale() error {
	d.mu.Lock()
	stale := d.stale
	d.mu.Unlock()
	if !stale {
		return nil
	}
	return d.moveBehind(context.Background())
}

// checkpointIfLong makes a checkpoint at once if the log is long.
func (d *Dir) checkpointIfLong() {
	if d.countFrames(); d.checkpoints.frames >= d.longLog() {
		d.makeCheckpoint(&logSums{})
	}
}

// makeCheckpoint moves the log into pawl.db. sums are of as much of it as was read before. If
// it fails nothing that was committed is lost, but unless the disk is only full it is not
// trusted any more.
//
// A crash in the middle leaves pages in pawl.db that the log has as well, the same or newer:
// SQLite reads those of the log, and moves them again. On a full disk pawl.db cannot grow: the
// log stays, and with it everything; the next checkpoint is tried when it has grown as much
// again. The lock is held.
func (d *Dir) makeCheckpoint(sums *logSums) {
	d.checkpoints.frames, d.log.size = 0, 0
	d.checkpoints.made++
	move := func() error { return d.checkpointAndMark(d.checkpointText(), sums) }
	err := error(nil)
	if d.stale {
		err = d.indexError(d.restartRedo(move))
	} else {
		err = d.indexError(move())
	}
	if err == nil {
		d.stale = d.stale && d.redo.recycling // it could not be emptied then
		return
	}
	err = fmt.Errorf("checkpoint: %w", err)
	d.options.Logger.Error("the log cannot be moved into the index", "file", d.pathOf(indexFile), "error", err)
	if !errors.Is(err, ErrNoSpace) {
		_ = d.failForGood(err) // whoever comes next is told
	}
}

// checkpointText returns the statement that moves the log into pawl.db: the log keeps its
// size, which costs least, unless it has content that was deleted.
//
// PASSIVE moves whatever it can without waiting for readers; there are none, for the connection
// is exclusive.
func (d *Dir) checkpointText() string {
	if d.stale {
		return `PRAGMA wal_checkpoint(TRUNCATE)`
	}
	return `PRAGMA wal_checkpoint(PASSIVE)`
}

// checkpointAndMark moves the log into pawl.db, by a statement, and then writes the sums of
// the pages that were in it.
//
// The sums are written after the pages and before the next commit, which begins the log anew: see
// sums.go. If they cannot be read or written there are no marks any more, and that is no error.
func (d *Dir) checkpointAndMark(text string, sums *logSums) error {
	if d.sums != nil {
		if err := sums.readLog(d); err != nil {
			d.endMark(err)
		}
	}
	if err := d.db.Script(text); err != nil || d.sums == nil || sums.count == 0 {
		return err
	}
	d.hook.Hit("checkpoint.moved")
	if err := d.writeMark(sums); err != nil {
		d.endMark(err)
	}
	return nil
}
