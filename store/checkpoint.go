package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/redo"
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
	// scarceLog is how many it has on a disk that was full, and has little room: see disk.go.
	scarceLog = 8
	// maxLogs times as many it has before commits wait for the preparation too.
	maxLogs = 3
)

// longLog returns how many frames the log has before a checkpoint is prepared.
//
// After something was deleted for good, such as by a purge, the log should not keep it for long.
func (d *Dir) longLog() int {
	if d.shortLog.Load() {
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
	d.sizes.Log.Store(int64(d.checkpoints.frames) * walFrame)
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
	d.measureIndex()
	if err == nil {
		d.stale = d.stale && d.redo.recycling // it could not be emptied then
		d.restoreReserve()                    // room may have come from elsewhere
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

// At PowerLoss a commit is durable when the write-ahead log is on the disk. SQLite syncs it
// with fsync, and lets it grow by what it writes; to sync a file that has grown, or whose
// time of change is to be synced too, a file system writes its own journal as well. So SQLite
// is told not to sync its commits, as at ProcessCrash, and the log is synced here, after each,
// by fdatasync, while nobody reads or writes pawl.db. A log that becomes long gets zeros
// behind its end, which its frames then overwrite.

// A commitLog is the write-ahead log as commits sync it. The lock of the directory guards it.
//
// The descriptor is of the same file that SQLite appends to. size is only a bound by which it is
// seen without a call of the system that there are zeros enough.
type commitLog struct {
	file     *os.File // nil where commits are not synced
	size     int64    // of the file, at least; math.MaxInt64: it is left as it is
	unsynced bool     // the last transaction is not synced
}

// Zeros are added in steps, and each step makes the file system write its journal once; in
// between a commit overwrites what is there, and its sync has nothing to say about the size of
// the file.
const (
	walFrame     = index.PageSize + 24 // bytes of a frame
	reserveFrom  = 256 << 10           // bytes that a log has before it gets zeros
	reserveRest  = 64 << 10            // bytes of zeros that are left when it gets more
	reserveStep  = 512 << 10           // bytes of zeros that it gets at once
	reserveLeave = 32 << 20            // bytes that the disk must have left for that, and for a long log after it was full
)

// syncCommitsHere begins to sync commits with a call of our own.
//
// Open calls it last: what Open commits itself is synced by SQLite.
func (d *Dir) syncCommitsHere() (err error) {
	if d.options.Durability == ProcessCrash {
		return nil
	}
	d.log.file, err = d.root.OpenFile(indexWAL, os.O_RDWR|noFollow, 0)
	if err == nil {
		err = d.db.Script(unsyncedCommits)
	}
	return err
}

// unsyncedCommits has SQLite sync the log when it begins anew, and before and after what is in
// it is moved, but not at each commit.
const unsyncedCommits = `PRAGMA synchronous=NORMAL`

// syncCommit makes what was committed durable. After an error nobody can know whether it is,
// and no later sync would tell.
//
// It is called between the COMMIT and the answers, with the lock. An fsync that failed may have
// dropped the pages that it could not write, and the next one would succeed without them; so the
// caller fails the directory for good.
func (d *Dir) syncCommit() error {
	if d.log.file == nil {
		return nil
	}
	err := syncData(d.log.file)
	d.log.unsynced = d.log.unsynced && err != nil
	return err
}

// syncBefore makes the last transaction durable, if it is not, before another one is begun.
//
// Records that move out of the redo log are not synced, since they are there still. But with another transaction behind
// them, a loss of power could leave a log without its middle, which looks damaged, and is refused. The lock is held.
func (d *Dir) syncBefore() error {
	if !d.log.unsynced {
		return nil
	}
	if err := d.syncCommit(); err != nil {
		return d.failForGood(fmt.Errorf("sync %s: %w", d.pathOf(indexWAL), typedError(err)))
	}
	return nil
}

// closeLog ends that commits are synced.
//
// From then on whoever commits must have SQLite sync, as Close does.
func (d *Dir) closeLog() error {
	f := d.log.file
	if f == nil {
		return nil
	}
	d.log.file = nil
	return f.Close()
}

// reserveLog adds zeros to a log that is about to grow. Without room for them it grows by
// itself. It is called between transactions: nobody else writes.
//
// Zeros behind the last frame are no frame, since their checksum does not fit: a crash changes
// nothing about what is read. On a disk that is nearly full none are added, so that they take
// nothing from commits; and a log that is about to be moved needs none.
func (d *Dir) reserveLog() {
	l := &d.log
	used := int64(d.checkpoints.frames) * walFrame
	if l.file == nil || used < reserveFrom || used+reserveRest < l.size || used > longLog*walFrame {
		return
	}
	info, err := l.file.Stat()
	if err != nil {
		l.size = math.MaxInt64
		return
	}
	if l.size = info.Size(); used+reserveRest < l.size {
		return
	}
	if !hasRoom(l.file, reserveLeave) {
		l.size = math.MaxInt64
		return
	}
	if err := redo.WriteZeros(l.file, l.size, reserveStep); err != nil {
		l.size = math.MaxInt64
		return
	}
	l.size += reserveStep
}
