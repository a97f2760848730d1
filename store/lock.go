package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/shown"
	"github.com/pawl-run/pawl/internal/state"
)

// A LockedError says who has a directory, as far as the system tells: Linux does, others do not.
// It is ErrLocked.
type LockedError struct {
	Process int    // that has the lock; 0 if it is not known
	Command string // what it is, such as "pawl ls", if it is the command pawl and no engine of a program
}

// Error names the holder, and what to do about it.
func (e *LockedError) Error() string {
	switch {
	case e.Command != "":
		return fmt.Sprintf("the directory is in use by the command %q, process %d: wait until it has ended, or end it", e.Command, e.Process)
	case e.Process == os.Getpid():
		return fmt.Sprintf("%v, of this process: close that one", ErrLocked)
	case e.Process != 0:
		return fmt.Sprintf("%v, of process %d: close that one", ErrLocked, e.Process)
	}
	return ErrLocked.Error() + ": close that one"
}

// As gives errors.As this error as the type with the same fields that package pawl shows.
func (e *LockedError) As(target any) bool { return shown.As(e, target) }

// Is reports that it is ErrLocked.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// lockWait is how long an opening waits for a lock by default: longer than a command takes, and than the system takes to end a process.
const lockWait = time.Second

// A lockWish is how somebody waits for the lock of a directory.
//
// The lock is one of flock, which tells nobody that it is free, so it is tried again and again. The first try when it is free gets
// it: with commands that look at the directory one after another, an engine might never be the first. Therefore an engine that
// waits shuts the gate, before which commands stop; see lockGate.
type lockWish struct {
	limit    time.Duration // how long it waits; not at all if it is not positive
	gives    bool          // it stops before the gate, and lets an engine go first
	forOther bool          // it waits for commands alone: an engine goes on for long
}

// Bounds of the pauses between two tries.
const (
	minLockPause = time.Millisecond
	maxLockPause = 20 * time.Millisecond
)

// acquire calls try until it has the lock of the file at path, or is to wait no more. A wait that ctx ends fails with the cause.
func (w lockWish) acquire(ctx context.Context, path string, try func() (*os.File, error)) (*os.File, error) {
	over, stop := context.WithTimeout(ctx, max(w.limit, 0))
	defer stop()
	gate := lockGate{dir: filepath.Dir(path)}
	defer gate.open()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for next := minLockPause; ; next = min(2*next, maxLockPause) {
		f, err := w.tryOnce(&gate, try)
		var held *LockedError
		if !errors.Is(err, ErrLocked) || w.forOther && errors.As(err, &held) && held.Command == "" {
			return f, err
		}
		pause.Reset(next)
		select {
		case <-pause.C:
			if over.Err() == nil {
				continue
			}
		case <-over.Done():
		}
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		return nil, err
	}
}

// tryOnce makes one try, and shuts the gate if that fails.
func (w lockWish) tryOnce(gate *lockGate, try func() (*os.File, error)) (*os.File, error) {
	if w.gives && gate.isShut() {
		return nil, fmt.Errorf("%w, which is starting: ask again", ErrLocked)
	}
	f, err := try()
	if errors.Is(err, ErrLocked) && w.limit > 0 && !w.gives {
		gate.shut()
	}
	return f, err
}

// AwaitEngine waits until an engine waits for the directory at path, which this process has opened
// with [Options.GivesWay] or inspects, and returns nil. It fails with the cause of ctx.
//
// It looks ten times a second, which is a few calls of the system.
func AwaitEngine(ctx context.Context, path string) error {
	gate := lockGate{dir: path}
	for waitOut(ctx, lookAtGate) {
		if gate.isShut() {
			return nil
		}
	}
	return context.Cause(ctx)
}

// lookAtGate is how often a command that has a directory looks whether an engine waits.
const lookAtGate = 100 * time.Millisecond

// commandOf returns which command of pawl the arguments of a process are, "" if it is another program. Only the name of the
// command is told: the other arguments may be anybody's secrets.
func commandOf(arguments []string) string {
	if len(arguments) == 0 || filepath.Base(arguments[0]) != "pawl" {
		return ""
	}
	if len(arguments) > 1 && arguments[1] != "" && strings.Trim(arguments[1], "abcdefghijklmnopqrstuvwxyz") == "" {
		return "pawl " + arguments[1]
	}
	return "pawl"
}

// lockWish returns how a directory is waited for that is opened with these options.
func (o *Options) lockWish() lockWish {
	return lockWish{limit: cmp.Or(o.LockWait, lockWait), gives: o.GivesWay}
}

// A lockRecord is the text of the lock file: it says how the last engine has left
// pawl.db. SQLite believes a write-ahead log that is lost or of an older time; the
// lock record shows that it is.
//
// It is written at four moments, each time before what it says can become untrue, or after it has
// become true: when an engine begins to change pawl.db, or migrates it (closed, nothing known),
// when its epoch is durable there (open or synced), when Close has moved the log into pawl.db
// (closed, with the epoch), and when pawl.db is closed (with hash and fingerprint). The zero hash
// and the zero epoch stand for what is not known, which is checked and not compared. The zero lockRecord stands for a lock
// file without a record, as of a new directory: then nothing says that pawl.db is the last one.
type lockRecord struct {
	state       closingState
	epoch       state.Epoch // in pawl.db; 0 if it is not known
	hash        string      // SHA-256 of pawl.db, if it was closed; "" if it is not known
	fingerprint string      // of the runs in it, likewise
}

// A closingState says whether the last engine has closed pawl.db.
//
// The text is a part of the format of a directory.
type closingState string

const (
	// stateClosed without an epoch stands for a pawl.db that an engine has found to be the last one, and had begun to change.
	stateClosed closingState = "closed"
	stateOpen   closingState = "open"   // an engine has it, or died with it
	stateSynced closingState = "synced" // likewise, and syncs every commit
)

// isLeftOpen reports whether the last engine has not closed pawl.db.
func (m lockRecord) isLeftOpen() bool { return m.state == stateOpen || m.state == stateSynced }

// String returns the text of the lock file.
//
// A record is whole if it parses to one that has the same text: see parseLockRecord. So the length
// of the epoch is fixed, and the line ends with a newline.
func (m lockRecord) String() string {
	text := fmt.Sprintf("%s %016x", m.state, uint64(m.epoch))
	if m.hash != "" {
		text += " " + m.hash
	}
	if m.fingerprint != "" {
		text += " " + m.fingerprint
	}
	return text + "\n"
}

// writeLockRecord writes m to the lock file, durably.
//
// It is written in place, since the lock is of the file and not of its name: a new file under the
// name would be one that nobody has locked. It is shorter than a sector, which a disk writes as a whole, and the file has room for it before,
// and becomes as short as m after that: a crash in the middle leaves the record before, with zeros behind it, or m with the end of a longer one behind it.
func (d *Dir) writeLockRecord(m lockRecord) error {
	text := m.String()
	size := int64(len(text))
	info, err := d.lock.Stat()
	if err == nil && info.Size() < size {
		err = errors.Join(d.lock.Truncate(size), d.lock.Sync())
	}
	if err == nil {
		d.hook.Hit("mark.room")
		_, err = d.lock.WriteAt([]byte(text), 0)
	}
	if err == nil {
		d.hook.Hit("mark.torn")
		err = d.lock.Sync()
	}
	if err == nil {
		err = d.lock.Truncate(size)
	}
	return err
}

// leavesDoubt reports whether pawl.db may be an older one, which does not name the files of later runs: the lock file has no record, or had
// none, and each engine since has found such files. Their epochs are even, and all other epochs odd.
func (m lockRecord) leavesDoubt() bool { return m == lockRecord{} || m.epoch != 0 && m.epoch%2 == 0 }

// forgetClosing has the lock file say that nothing is known of pawl.db any more but that it was the last one. If nothing said
// so before, nothing does now: after a crash in an Open the next one knows no more than this one.
func (d *Dir) forgetClosing() error {
	switch {
	case d.was == lockRecord{}:
		return nil
	case d.was.leavesDoubt():
		return errors.Join(d.lock.Truncate(0), d.lock.Sync())
	}
	return d.writeLockRecord(lockRecord{state: stateClosed})
}

// maxLockRecord bounds what is read of the lock file.
const maxLockRecord = 256

// isLockRecord reports whether a text of the lock file is one of an engine.
func isLockRecord(text string) bool { return lockRecordOf(text) != lockRecord{} }

// lockRecordOf returns the lock record that a text of the lock file begins with: its first line.
func lockRecordOf(text string) lockRecord {
	return parseLockRecord(text[:strings.IndexByte(text, '\n')+1])
}

// readLockRecord reads the lock file. A text that was not written whole is read as that of a new directory.
//
// It is called with the lock, and before anything is written.
func (d *Dir) readLockRecord() (lockRecord, error) {
	text, err := io.ReadAll(io.NewSectionReader(d.lock, 0, maxLockRecord))
	if err != nil {
		return lockRecord{}, err
	}
	return lockRecordOf(string(text)), nil
}

// parseLockRecord parses a line of the lock file. A text that is not a whole lock record
// gives the zero lockRecord.
//
// The number of an epoch without its last digits would be another epoch, and a whole directory
// would be refused for it. Therefore a text that is cut short is not believed at all.
func parseLockRecord(text string) (m lockRecord) {
	defer func() {
		known := m.state == stateClosed || m.isLeftOpen()
		if !known || m.String() != text { // a part of an epoch is another one
			m = lockRecord{}
		}
	}()
	var epoch uint64
	_, _ = fmt.Sscanf(text, "%s %x %s %s\n", &m.state, &epoch, &m.hash, &m.fingerprint) // the last may be missing
	m.epoch = state.Epoch(epoch)
	if len(m.hash) != hex.EncodedLen(sha256.Size) {
		m.hash = ""
	}
	return m
}

// checkIndexHash fails if pawl.db has changed since it was closed.
//
// Nothing may change a pawl.db that an engine has closed: no editor, no synchronization of files,
// no disk. The sums of the pages are made on the same way through the file, for the mark of this
// life.
func (d *Dir) checkIndexHash(m lockRecord) error {
	if m.state != stateClosed || m.hash == "" {
		return nil
	}
	h := sha256.New()
	var err error
	if d.found, err = d.sumIndex(h); err == nil && hex.EncodeToString(h.Sum(nil)) != m.hash {
		err = &CorruptError{File: d.pathOf(indexFile), What: "it has changed since it was closed"}
	}
	return err
}
