package store

import (
	"errors"
	"fmt"
	"sync"
)

// A checkpoint moves the write-ahead log into pawl.db, so that the next commit begins the log
// anew. Commits wait for it. What takes longest is therefore done before, while they go on: the
// log is synced, and its pages are read and summed for the mark.

const (
	// longLog is how many frames the log has before a checkpoint is prepared.
	longLog = 12_000
	// staleLog is how many it has if there is content among them that was deleted since.
	staleLog = 4000
	// maxLogs times as many it has before commits wait for the preparation too.
	maxLogs = 3
)

// longLog returns how many frames the log has before a checkpoint is prepared.
func (d *Dir) longLog() int {
	if d.stale {
		return int(d.hook.LogFrames(staleLog))
	}
	return int(d.hook.LogFrames(longLog))
}

// A checkpointer says how the log stands. The lock of the directory guards it, but for running.
type checkpointer struct {
	frames    int            // of the log, about
	preparing bool           // a goroutine prepares a checkpoint
	running   sync.WaitGroup // that goroutine
}

// countFrames counts what was written into the log since the last call.
func (d *Dir) countFrames() {
	n, err := d.db.Written()
	if d.checkpoints.frames += n; err != nil {
		d.checkpoints.frames = maxLogs * d.longLog()
	}
	d.reserveLog()
}

// needsCheckpoint reports whether the committer has to see to the length of the log.
func (d *Dir) needsCheckpoint() bool {
	c := &d.checkpoints
	return c.frames >= maxLogs*d.longLog() || c.frames >= d.longLog() && !c.preparing
}

// startCheckpoint has a checkpoint made if the log is long: by a goroutine, which prepares it
// while commits go on, or at once if the log has become very long.
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
func (d *Dir) prepareCheckpoint() {
	sums := logSums{}
	err := d.syncLog()
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

// checkpointIfLong makes a checkpoint at once if the log is long.
func (d *Dir) checkpointIfLong() {
	if d.countFrames(); d.checkpoints.frames >= d.longLog() {
		d.makeCheckpoint(&logSums{})
	}
}

// makeCheckpoint moves the log into pawl.db. sums are of as much of it as was read before. If
// it fails nothing that was committed is lost, but unless the disk is only full it is not
// trusted any more.
func (d *Dir) makeCheckpoint(sums *logSums) {
	d.checkpoints.frames, d.log.size = 0, 0
	err := d.indexError(d.checkpointAndMark(d.checkpointText(), sums))
	if err == nil {
		d.stale = false
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
func (d *Dir) checkpointText() string {
	if d.stale {
		return `PRAGMA wal_checkpoint(TRUNCATE)`
	}
	return `PRAGMA wal_checkpoint(PASSIVE)`
}

// checkpointAndMark moves the log into pawl.db, by a statement, and then writes the sums of
// the pages that were in it.
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
