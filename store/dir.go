package store

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/seal"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/workflow"
)

// Durability says what a commit survives.
type Durability uint8

// The durabilities.
const (
	// PowerLoss: the disk has it when Commit returns, if it honours fsync.
	PowerLoss Durability = iota
	// ProcessCrash: the operating system has it. A power loss may take the
	// last commits, never a part of one.
	ProcessCrash
)

// Options are the settings of a Dir. The zero value works.
type Options struct {
	Durability    Durability
	Logger        *slog.Logger   // for errors that no caller can be told; nil discards
	KeepArtifacts bool           // runs that fail keep their artifacts
	Codec         Codec          // encrypts the values on the disk; nil leaves them as they are
	CountTenants  bool           // TenantBytes counts; Open then reads a row of each run that has a tenant
	Detach        bool           // a directory that has a log is opened without it, for good
	LogAway       bool           // one that has a log is opened although that is not here: what the log would get fails with ErrRemote
	Outbox        int64          // how many bytes of events wait to be published before commits wait; 0: none are kept
	Hook          *testhook.Hook // of a test; nil otherwise

	building bool    // the directory is a copy that is being made
	remote   *remote // of OpenRemote; nil otherwise
}

// A Dir is an open engine directory. It may be used by many goroutines.
type Dir struct {
	path    string
	options Options
	hook    *testhook.Hook
	root    *os.Root
	lock    *os.File
	owned   os.FileInfo // of the lock
	// lockPath is where the lock file was, whatever the working directory is now.
	lockPath  string
	epoch     workflow.Epoch
	secret    []byte
	sealer    seal.Sealer
	markKey   string       // of the mark of sealed values, "" without one
	lastNum   atomic.Int64 // number of the last run
	lastSpill atomic.Int64 // number of the last spill
	reserved  atomic.Int64 // numbers the files of reserveSpace

	reading indexLock // readers take it before mu, so that a commit waits for one of them at most

	mu   indexLock // guards db and dead
	db   *sqlite.Conn
	file os.FileInfo // of the pawl.db that db has open
	dead error       // why nothing works any more

	damaged bool         // pawl.db was checked, and is
	stale   bool         // the log has content that was deleted
	older   bool         // while it is opened: the file pawl.db is of an older format
	erase   bool         // free pages have, or may have
	commits atomic.Int64 // transactions of this life
	counts  runCounts    // of the runs
	tenants tenantBytes
	tape    sqlite.Tape // of the transaction under way; the committer's
	tapes   tapes       // of those that whoever follows the directory has not got yet
	outbox  *eventOutbox
	remote  *remote       // nil if commits count when the directory has them
	logAway bool          // it has a log, which is not here
	found   []uint32      // while it is opened: the sums of the pages of pawl.db
	mark    mark          // the last one; the committer's
	sums    *os.File      // that holds it; nil if no marks are made
	failed  chan struct{} // closed when dead is ErrFailed

	definitions definitions
	garbage     garbage
	committer   committer
	checkpoints checkpointer
	log         commitLog
	flusher     flusher
	backing     chan struct{} // holds one while a backup is under way, and for good once closed
	closing     chan struct{} // closed when Close begins
	close       sync.Once
	closed      error
}

const (
	indexFile = index.File
	indexWAL  = index.WALFile
	sumsFile  = index.SumsFile
	runsDir   = index.RunsDir
	tmpDir    = index.TmpDir
	lockName  = index.LockFile
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

// dropGarbageAtOpen drops dead records and spills that no record names, and finds the
// numbers that were given last.
func (d *Dir) dropGarbageAtOpen() error {
	garbage := []string{dropFlushed, dropStray}
	if d.logAway {
		garbage = garbage[:1] // the log may have the record of a spill that nothing here names yet
	}
	for _, text := range garbage {
		if _, err := d.db.Exec(text); err != nil {
			return d.indexError(err)
		}
	}
	for _, find := range []func() error{d.findUnusedAtOpen, d.loadCounts, d.loadTenantBytes, d.loadOutbox} {
		if err := find(); err != nil {
			return d.indexError(err)
		}
	}
	for text, last := range map[string]*atomic.Int64{maxNum: &d.lastNum, maxSpill: &d.lastSpill} {
		err := d.db.Each(text, func(r *sqlite.Row) error { last.Store(r.Int64(0)); return nil })
		if err != nil {
			return d.indexError(err)
		}
	}
	if d.remote != nil {
		d.lastSpill.Store(max(d.lastSpill.Load(), d.remote.place.Spill))
	}
	return nil
}

const (
	putEpoch = `INSERT INTO meta (key, value) VALUES ('epoch', ?) ON CONFLICT DO UPDATE SET value = excluded.value`
	maxNum   = `SELECT coalesce(max(num), 0) FROM runs`
)

// Epoch returns the number drawn for this life of the directory.
func (d *Dir) Epoch() workflow.Epoch { return d.epoch }

// Secret returns 32 bytes that were drawn when the directory was made, and that its copies
// have. Nothing shows them to anybody; nobody may change what is returned.
func (d *Dir) Secret() []byte { return d.secret }

// Failed is closed when everything fails with ErrFailed from then on.
func (d *Dir) Failed() <-chan struct{} { return d.failed }

// Err returns why nothing works any more, ErrFailed or ErrClosed, or nil.
func (d *Dir) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dead
}

// indexError returns an error of pawl.db as one that callers can test.
func (d *Dir) indexError(err error) error {
	switch {
	case err == nil:
		return nil
	case sqlite.IsDamaged(err) && d.indexIsSound():
		return fmt.Errorf("%s could not be read just now: %w", d.pathOf(indexFile), err)
	case sqlite.IsDamaged(err):
		return &CorruptError{File: d.pathOf(indexFile), What: "SQLite cannot read it", Err: err}
	case sqlite.IsBusy(err):
		return fmt.Errorf("%w: %s: %w", ErrLocked, d.pathOf(indexFile), err)
	}
	return typedError(err)
}

// indexIsSound reports whether pawl.db is in order, or may be, although SQLite has called
// it malformed: SQLite also says so when the system could not read a page. The lock is
// held.
func (d *Dir) indexIsSound() bool {
	if d.db == nil || d.damaged {
		return false
	}
	found := ""
	_, err := d.db.One(`PRAGMA quick_check(1)`, func(r *sqlite.Row) error { found = r.Text(0); return nil })
	switch {
	case err != nil:
		d.damaged = sqlite.IsDamaged(err)
	case !index.IsUnread(found):
		d.damaged = found != "ok"
	}
	return !d.damaged
}

// pathOf returns the path of a file in the directory.
func (d *Dir) pathOf(name string) string { return filepath.Join(d.path, name) }
