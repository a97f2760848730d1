package store

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/seal"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/tally"
)

// indexPragmas prepare the connection to pawl.db, in this order.
//
// The connection is exclusive, so that no other program reads or writes pawl.db while an engine has it: SQLite's lock is the second one,
// behind that of the lock file, and also holds where somebody has removed the lock file. That busy_timeout is 0 has a locked pawl.db
// fail at once, as ErrLocked, and not after a wait. It begins with synchronous=FULL: what Open itself commits, such as the epoch, is
// durable before the lock record says so; [Dir.syncCommitsHere] relaxes that at the end.
const indexPragmas = `
PRAGMA busy_timeout=0;
PRAGMA locking_mode=EXCLUSIVE; -- no shared memory, no lock per transaction
PRAGMA journal_mode=WAL;
PRAGMA synchronous=FULL;
PRAGMA fullfsync=ON; -- macOS: its fsync leaves what the disk has in its cache
PRAGMA checkpoint_fullfsync=ON;
PRAGMA wal_autocheckpoint=0; -- SQLite would keep the errors of one to itself
PRAGMA temp_store=MEMORY;
PRAGMA trusted_schema=OFF;
PRAGMA cell_size_check=ON;
PRAGMA secure_delete=FAST; -- what is deleted is overwritten, as far as its page is written anyway: see erase.go
`

// Open opens the engine directory at path, which it creates if it is missing. It fails with ErrLocked if the directory is
// in use, and stays so for [Options.LockWait], with ErrForeign if it is one of other files, with ErrNoSpace if the disk is
// full, with fs.ErrPermission if the process may not write in it, with ErrSealed if its values are sealed and the codec lacks the
// key, and with ErrCorrupt or ErrVersion if pawl.db is not what the last engine left; then nothing has been changed.
//
// When it returns, the directory is as the last acknowledged commit left it, whatever the last engine died of: SQLite has taken up the
// write-ahead log, dead records and spills without a record are gone, and with a log outside, pawl.db has that up to its end. No run is
// loaded, and no file of a run is read: a damaged one is found by [Dir.Load], and costs that run alone.
//
// It tries twice, because SQLite answers that a database is malformed also where the system could not read a page, and an engine should
// not refuse its directory for one failed read. The committer and the flusher begin last: while they do not run, the steps of the
// opening have the connection for themselves.
func Open(path string, o Options) (*Dir, error) { return OpenContext(context.Background(), path, o) }

// OpenContext is Open, which waits for the lock of the directory until ctx ends at the latest. See [Options.LockWait].
func OpenContext(ctx context.Context, path string, o Options) (*Dir, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	d, err := tryOpen(ctx, path, o)
	if sqlite.IsDamaged(err) || errors.Is(err, index.ErrUnread) { // SQLite says so of a read that failed as well
		o.Logger.Warn("the index looks damaged and is opened once more", "directory", path, "error", err)
		d, err = tryOpen(ctx, path, o)
	}
	if errors.Is(typedError(err), ErrNoSpace) && o.GivesWay {
		o.scarce = true
		d, err = tryOpen(ctx, path, o)
	}
	if err != nil {
		return nil, fmt.Errorf("open engine directory %q: %w", path, accessError(typedError(err)))
	}
	if !d.shortLog.Load() {
		d.makeReserve()
	}
	d.warnOfAccess()
	d.committer.startLoop(d)
	d.flusher.startWorkers(d)
	d.startSweep()
	d.startSizes()
	d.startEraser()
	return d, nil
}

// tryOpen makes one attempt. After an error it closes whatever it has opened: the next attempt, or another process, finds the directory unlocked.
func tryOpen(ctx context.Context, path string, o Options) (*Dir, error) {
	sealer, err := seal.NewSealer(o.Codec)
	if err != nil {
		return nil, err
	}
	d := &Dir{path: path, options: o, sealer: sealer, hook: o.Hook, remote: o.remote, outbox: newEventOutbox(o.Outbox), backing: make(chan struct{}, 1), closing: make(chan struct{}), failed: make(chan struct{}), eraser: eraser{wake: make(chan struct{}, 1)}, unfiled: tally.Unfiled{On: o.Metrics != nil}}
	// A commit of a remote directory holds the lock for as long as its log does not answer.
	if o.remote != nil {
		d.reading.gate, d.mu.gate = make(chan struct{}, 1), make(chan struct{}, 1)
	}
	if err := d.openSteps(ctx); err != nil {
		_ = d.closeHandles() // err is what the caller has to know
		return nil, err
	}
	return d, nil
}

// openSteps opens the directory, and stops if its lock file is taken away meanwhile.
//
// The order of the steps is what makes them safe. The lock comes before everything that could be changed. Then pawl.db is checked before
// SQLite sees it, for SQLite would take up a log of another time without a word. The place in a log outside, the key of sealed values
// and the format are checked next, before anything is written into pawl.db, so that a directory which is refused is as it was. The epoch
// is last: from then on, an earlier owner that still lives is fenced.
//
// Somebody may remove the lock file between two steps, after which another engine can take a lock of its own. It is looked for before
// each step, and the opening fails with ErrLocked.
func (d *Dir) openSteps(ctx context.Context) error {
	lock := func() error { return d.lockDirectory(ctx) }
	room := func() error { return nil }
	if d.options.scarce {
		room = d.dropReserve
	}
	steps := []func() error{lock, room, d.connectIndex, d.findLogPlace, d.checkMarkAndFormat, d.prepareFolders, d.beginEpoch}
	for _, step := range steps {
		d.hook.Hit("open.step")
		if d.owned != nil {
			if err := d.checkOwnerAtOpen(); err != nil {
				return err
			}
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// lockDirectory makes the directory, if it is missing, and takes its lock.
//
// A folder that is not an engine's, or is a copy that was never finished, is refused before a
// lock file is put into it. The lock file is never removed, not even by Close: whoever waits to
// open it would otherwise lock a file that has no name any more. The path is remembered as an
// absolute one, because the process may change its working directory, and [Dir.checkOwner] must
// ask for the same file for as long as the engine lives.
func (d *Dir) lockDirectory(ctx context.Context) error {
	if err := d.checkFinished(); err != nil {
		return err
	}
	if err := makeDir(d.path); err != nil {
		return err
	}
	if err := d.checkForeign(); err != nil {
		return err
	}
	if err := checkName(d.pathOf(lockName), os.Lstat); err != nil {
		return err
	}
	var err error
	if d.lockPath, err = filepath.Abs(d.pathOf(lockName)); err != nil {
		return err
	}
	if d.lock, err = takeLock(ctx, d.lockPath, d.options.lockWish()); err != nil {
		return err
	}
	if d.owned, err = d.lock.Stat(); err != nil {
		return err
	}
	d.root, err = os.OpenRoot(d.path)
	return err
}

// connectIndex opens pawl.db, and locks it.
//
// Names are checked first, since SQLite follows links and takes up journals that lie there. Then
// the bytes are checked against the lock record, the sums of the pages are made while SQLite does
// not have the file, and the log is made durable under its name: SQLite creates it when it is
// needed, and does not tell if its name is not synced, with which all commits would be lost.
//
// pawl.db could be exchanged between the checks and the opening by SQLite. It is compared by its
// identity before and after; d.file stays known until Close, which seals that file and no other.
func (d *Dir) connectIndex() error {
	if err := d.checkNames(); err != nil {
		return err
	}
	if err := d.checkIndex(); err != nil {
		return err
	}
	if err := d.findSums(); err != nil {
		return err
	}
	if err := d.makeLogDurable(); err != nil {
		return err
	}
	before, err := d.root.Lstat(indexFile)
	if err != nil {
		return err
	}
	// The log stays until a checkpoint and the lock record have made it needless.
	if d.db, err = sqlite.OpenKeeping(d.pathOf(indexFile), indexPragmas); err != nil {
		return d.indexError(err)
	}
	d.file, err = d.root.Lstat(indexFile)
	if err == nil && !os.SameFile(before, d.file) {
		err = &CorruptError{File: d.pathOf(indexFile), What: "it was exchanged while it was opened"}
	}
	return err
}

// beginEpoch draws an epoch and writes it into pawl.db and the lock file.
//
// The epoch is random, and is never 0, which stands for one that is not known; it is odd, unless pawl.db may be an older one. Every transaction of this
// life compares it with the one in pawl.db, see [Dir.checkFence], and attempts of tasks carry theirs, so that a result is taken for its own attempt only.
//
// The lock file says meanwhile, and the next Open takes from it after a crash:
//
//  1. "closed", epoch 0, no hash: nothing is known but that pawl.db is the last one, or no record, if there was none before.
//     Everything in pawl.db is checked.
//  2. the epoch is in pawl.db, and synced: as before, for the lock file does not name it yet.
//  3. "synced" or "open" with the epoch: pawl.db must have this epoch and a log beside it, or it is
//     of another time, and refused.
//
// The second lock record must not come before the first commit is durable: a pawl.db that lacked
// the epoch would be refused as an old one.
func (d *Dir) beginEpoch() error {
	if err := d.forgetClosing(); err != nil {
		return err
	}
	var bytes [8]byte
	_, _ = rand.Read(bytes[:]) // it never fails
	d.epoch = state.Epoch(binary.LittleEndian.Uint64(bytes[:])) | 1
	if d.keepsUnnamed() {
		d.epoch <<= 1 // see leavesDoubt
	}
	if err := d.takeRedo(); err != nil {
		return d.indexError(err)
	}
	// The commit of the epoch has begun the log anew, and the sums of pawl.db as it was found
	// belong to that log.
	d.beginMark()
	if err := d.loadSecret(); err != nil {
		return err
	}
	if err := d.keepMark(); err != nil {
		return err
	}
	d.hook.Hit("open.epoch")
	state := stateSynced
	if d.options.Durability == ProcessCrash {
		state = stateOpen
		if err := d.db.Script(unsyncedCommits); err != nil {
			return err
		}
	}
	// From here on a directory that lacks its log, or has an older pawl.db, is refused.
	if err := d.writeLockRecord(lockRecord{state: state, epoch: d.epoch}); err != nil {
		return err
	}
	// With the epoch in place an earlier owner of this directory commits nothing more, and what
	// the log outside has is added to a pawl.db that nobody else changes.
	if err := d.joinLog(); err != nil {
		return err
	}
	if err := d.dropGarbageAtOpen(); err != nil {
		return err
	}
	if err := d.beginRedo(); err != nil {
		return err
	}
	return d.syncCommitsHere()
}

// loadSecret reads the secret, or draws it in a directory that has none yet.
//
// Keys of tasks are derived from it, so it must be the same for as long as an executor may hold a
// key: it is drawn once, is copied with the directory, and is never replaced because it is
// damaged.
func (d *Dir) loadSecret() (err error) {
	d.secret, err = index.ReadSecret(d.db)
	if err == nil && d.secret == nil {
		d.secret, err = index.NewSecret(d.db)
	}
	if errors.Is(err, index.ErrDamagedSecret) {
		return &CorruptError{File: d.pathOf(indexFile), What: err.Error()}
	}
	return d.indexError(err)
}

// SQLite opens a pawl.db without its write-ahead log, or with a log of another time,
// without a word, and the commits in the log are lost. The lock record tells whether a
// log must be there.

// checkLogPresent refuses a directory whose write-ahead log was deleted or damaged: a log is
// there from the first commit of an engine until it closes.
//
// The frames of a log that was synced at each commit are whole up to the last commit, so that a
// frame which is damaged before others that are whole shows that commits are lost: SQLite would
// stop there without a word. Where commits are not synced a loss of power may leave just that,
// and nothing that was promised is lost.
func (d *Dir) checkLogPresent(m lockRecord) error {
	if !m.isLeftOpen() {
		return nil
	}
	log, err := d.readFile(indexWAL)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &CorruptError{File: d.pathOf(indexWAL), What: "it is missing, but the last engine did not close"}
	case err != nil:
		return err
	case m.state != stateSynced:
		return nil // the order of its frames on disk tells nothing
	}
	if err := sqlite.CheckWAL(log); err != nil {
		return &CorruptError{File: d.pathOf(indexWAL), What: "commits would be lost", Err: err}
	}
	return nil
}

// checkStaleLog refuses a write-ahead log that would change a pawl.db that was closed.
// Everything is in such a pawl.db, so the log is an older one, or another program's. The
// last log itself may be back, for its removal need not be durable: it changes nothing.
//
// To find out, the log is not executed but compared, page by page, with pawl.db.
func (d *Dir) checkStaleLog(m lockRecord) error {
	if m.state != stateClosed || m.hash == "" {
		return nil
	}
	log, err := d.readFile(indexWAL)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	db, err := d.openRegular(indexFile)
	if err != nil {
		return err
	}
	changes := false
	info, err := db.Stat()
	if err == nil {
		changes, err = sqlite.WALChanges(log, db, info.Size())
	}
	_ = db.Close() // it was only read
	if changes {
		return &CorruptError{File: d.pathOf(indexWAL), What: "it is not the log of the pawl.db that was closed, and would change it"}
	}
	return err
}
