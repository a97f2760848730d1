package store

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/seal"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// indexPragmas prepare the connection to pawl.db, in this order.
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

// Open opens the engine directory at path, which it creates if there is none.
// It fails with ErrLocked if the directory is in use, with ErrForeign if it is one of
// other files, with ErrNoSpace if the disk is full, with ErrSealed if its values are sealed and the
// codec lacks the key, and with ErrCorrupt or ErrVersion if pawl.db is not what the last engine
// left; then nothing has been changed.
func Open(path string, o Options) (*Dir, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	d, err := tryOpen(path, o)
	if sqlite.IsDamaged(err) || errors.Is(err, index.ErrUnread) { // SQLite says so of a read that failed as well
		o.Logger.Warn("the index looks damaged and is opened once more", "directory", path, "error", err)
		d, err = tryOpen(path, o)
	}
	if err != nil {
		return nil, fmt.Errorf("open engine directory %q: %w", path, typedError(err))
	}
	d.warnOfAccess()
	d.committer.startLoop(d)
	d.flusher.startWorkers(d)
	return d, nil
}

func tryOpen(path string, o Options) (*Dir, error) {
	sealer, err := seal.NewSealer(o.Codec)
	if err != nil {
		return nil, err
	}
	d := &Dir{path: path, options: o, sealer: sealer, hook: o.Hook, remote: o.remote, outbox: newEventOutbox(o.Outbox), backing: make(chan struct{}, 1), closing: make(chan struct{}), failed: make(chan struct{})}
	if o.remote != nil {
		d.reading.gate, d.mu.gate = make(chan struct{}, 1), make(chan struct{}, 1)
	}
	if err := d.openSteps(); err != nil {
		_ = d.closeHandles() // err is what the caller has to know
		return nil, err
	}
	return d, nil
}

// openSteps opens the directory, and stops if its lock file is taken away meanwhile.
func (d *Dir) openSteps() error {
	steps := []func() error{d.lockDirectory, d.connectIndex, d.findLogPlace, d.checkMarkAndFormat, d.prepareFolders, d.beginEpoch}
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

// lockDirectory makes the directory, if there is none, and takes its lock.
func (d *Dir) lockDirectory() error {
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
	if d.lock, err = takeLock(d.lockPath); err != nil {
		return err
	}
	if d.owned, err = d.lock.Stat(); err != nil {
		return err
	}
	d.root, err = os.OpenRoot(d.path)
	return err
}

// connectIndex opens pawl.db, and locks it.
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
func (d *Dir) beginEpoch() error {
	if err := d.writeLockRecord(lockRecord{state: stateClosed}); err != nil {
		return err
	}
	var bytes [8]byte
	_, _ = rand.Read(bytes[:]) // it never fails
	d.epoch = workflow.Epoch(binary.LittleEndian.Uint64(bytes[:])) | 1
	if _, err := d.db.Exec(putEpoch, int64(d.epoch)); err != nil {
		return d.indexError(err)
	}
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
	if err := d.writeLockRecord(lockRecord{state: state, epoch: d.epoch}); err != nil {
		return err
	}
	if err := d.joinLog(); err != nil {
		return err
	}
	if err := d.dropGarbageAtOpen(); err != nil {
		return err
	}
	return d.syncCommitsHere()
}

// loadSecret reads the secret, or draws it in a directory that has none yet.
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
