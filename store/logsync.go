package store

import (
	"fmt"
	"math"
	"os"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/redo"
)

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
	reserveLeave = 32 << 20            // bytes that the disk must have left for that
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
