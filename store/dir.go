package store

import (
	"crypto/rand"
	_ "embed" // the schemas
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/pawl-run/pawl/internal/failpoint"
	"github.com/pawl-run/pawl/internal/sqlite"
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
	Logger        *slog.Logger // of what no caller can be told; nil discards
	Materializers int          // files that are built at a time; 0 is 2, at most 64

	building bool // the directory is a copy that is being made
}

// A Dir is an open engine directory. It may be used by many goroutines.
type Dir struct {
	path    string
	options Options
	root    *os.Root
	lock    *os.File
	owned   os.FileInfo // of the lock
	// lockPath is where the lock file was, whatever the working directory is now.
	lockPath string
	epoch    workflow.Epoch
	lastNum  atomic.Int64 // of the runs
	lastPart atomic.Int64 // of what was put aside
	spared   atomic.Int64 // numbers the files of spare

	reading sync.Mutex // taken before mu by those who only read: a commit waits for one of them at most

	mu   sync.Mutex // guards db and dead
	db   *sqlite.Conn
	dead error // why nothing works any more

	damaged bool          // pawl.db was checked, and is
	frames  int           // in the write-ahead log, about; for the committer
	failed  chan struct{} // closed when dead is ErrFailed

	definitions definitions
	heap        heap
	gathering   func() // for tests: called before parts are read
	committer   committer
	filer       filer
	backing     chan struct{} // holds one while a backup is under way, and for good once closed
	closing     chan struct{} // closed when Close begins
	close       sync.Once
	closed      error
}

const maxMaterializers = 64

const (
	indexFile    = "pawl.db"
	indexWAL     = "pawl.db-wal"
	runsDir      = "runs"
	tmpDir       = "tmp"
	lockFile     = "LOCK"
	indexID      = 0x7061776c // "pawl"
	indexVersion = 4
	indexPage    = 4096
)

// indexPragmas prepare the connection to pawl.db, in this order.
const indexPragmas = `
PRAGMA busy_timeout=0;
PRAGMA locking_mode=EXCLUSIVE; -- no shared memory, no lock per transaction
PRAGMA journal_mode=WAL;
PRAGMA synchronous=FULL;
PRAGMA wal_autocheckpoint=0; -- SQLite would keep the errors of one to itself
PRAGMA temp_store=MEMORY;
PRAGMA trusted_schema=OFF;
PRAGMA cell_size_check=ON;
`

//go:embed index.sql
var indexSchema string

// Open opens the engine directory at path, which it creates if there is none.
// It fails with ErrLocked if the directory is in use, with ErrNoSpace if the disk
// is full, and with ErrCorrupt or ErrVersion if pawl.db is not what the last engine
// left; then nothing has been changed.
func Open(path string, o Options) (*Dir, error) {
	if o.Materializers <= 0 {
		o.Materializers = 2
	}
	o.Materializers = min(o.Materializers, maxMaterializers)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	d, err := tryOpen(path, o)
	if sqlite.IsDamaged(err) || errors.Is(err, errUnread) { // SQLite says so of a read that failed as well
		o.Logger.Warn("the index looks damaged and is opened once more", "directory", path, "error", err)
		d, err = tryOpen(path, o)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, typed(err))
	}
	d.committer.start(d)
	d.filer.start(d)
	return d, nil
}

func tryOpen(path string, o Options) (*Dir, error) {
	d := &Dir{path: path, options: o, backing: make(chan struct{}, 1), closing: make(chan struct{}), failed: make(chan struct{})}
	if err := d.open(); err != nil {
		_ = d.release() // err is what the caller has to know
		return nil, err
	}
	return d, nil
}

func (d *Dir) open() error {
	steps := []func() error{d.own, d.connect, d.prepare, d.begin}
	for _, step := range steps {
		failpoint.Hit("open.step")
		if d.owned != nil {
			if err := d.stillOpening(); err != nil {
				return err
			}
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// own makes the directory and takes its lock.
func (d *Dir) own() error {
	if err := d.checkFinished(); err != nil {
		return err
	}
	if err := makeDir(d.path); err != nil {
		return err
	}
	if err := checkName(d.at(lockFile), os.Lstat); err != nil {
		return err
	}
	var err error
	if d.lockPath, err = filepath.Abs(d.at(lockFile)); err != nil {
		return err
	}
	if d.lock, err = lock(d.lockPath); err != nil {
		return err
	}
	if d.owned, err = d.lock.Stat(); err != nil {
		return err
	}
	d.root, err = os.OpenRoot(d.path)
	return err
}

// prepare clears what was being built.
func (d *Dir) prepare() error {
	if err := d.clearTmp(); err != nil {
		return err
	}
	if err := d.root.Mkdir(runsDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return d.syncDir(".")
}

// clearTmp makes an empty folder for what is being built.
func (d *Dir) clearTmp() error {
	if err := d.root.RemoveAll(tmpDir); err != nil {
		return err
	}
	return d.root.Mkdir(tmpDir, 0o700)
}

// connect opens pawl.db, and locks it.
func (d *Dir) connect() error {
	if err := d.checkNames(); err != nil {
		return err
	}
	if err := d.checkIndex(); err != nil {
		return err
	}
	if err := d.nameLog(); err != nil {
		return err
	}
	var err error
	// The log stays until a checkpoint and its mark have made it needless.
	d.db, err = sqlite.OpenKeeping(d.at(indexFile), indexPragmas)
	return d.indexError(err)
}

// begin draws an epoch and writes it down.
func (d *Dir) begin() error {
	if err := d.mark(mark{state: markClosed}); err != nil {
		return err
	}
	var bytes [8]byte
	_, _ = rand.Read(bytes[:]) // it never fails
	d.epoch = workflow.Epoch(binary.LittleEndian.Uint64(bytes[:])) | 1
	if _, err := d.db.Exec(putEpoch, int64(d.epoch)); err != nil {
		return d.indexError(err)
	}
	failpoint.Hit("open.epoch")
	state := markSynced
	if d.options.Durability == ProcessCrash {
		state = markOpen
		if err := d.db.Script(`PRAGMA synchronous=NORMAL`); err != nil {
			return err
		}
	}
	if err := d.mark(mark{state: state, epoch: d.epoch}); err != nil {
		return err
	}
	return d.count()
}

// count drops dead records and what was put aside for nothing, and finds the
// numbers given last.
func (d *Dir) count() error {
	for _, text := range []string{dropFiled, dropStray} {
		if _, err := d.db.Exec(text); err != nil {
			return d.indexError(err)
		}
	}
	for text, last := range map[string]*atomic.Int64{maxNum: &d.lastNum, lastPart: &d.lastPart} {
		err := d.db.Each(text, func(r *sqlite.Row) error { last.Store(r.Int64(0)); return nil })
		if err != nil {
			return d.indexError(err)
		}
	}
	return nil
}

const (
	putEpoch = `INSERT INTO meta (key, value) VALUES ('epoch', ?) ON CONFLICT DO UPDATE SET value = excluded.value`
	getEpoch = `SELECT value FROM meta WHERE key = 'epoch'`
	maxNum   = `SELECT coalesce(max(num), 0) FROM runs`
)

// Epoch returns the number drawn for this life of the directory.
func (d *Dir) Epoch() workflow.Epoch { return d.epoch }

// Failed is closed when everything fails with ErrFailed from then on.
func (d *Dir) Failed() <-chan struct{} { return d.failed }

// Err returns why nothing works any more, ErrFailed or ErrClosed, or nil.
func (d *Dir) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dead
}

// Close waits for the filing that was asked for, closes pawl.db and gives the
// directory back. Commits that are under way succeed or fail with ErrClosed; a
// backup fails with it.
func (d *Dir) Close() error {
	d.close.Do(func() {
		close(d.closing)
		d.backing <- struct{}{}
		d.filer.stop()
		d.committer.stop()
		d.closed = d.finish()
	})
	return d.closed
}

// finish leaves the directory as a later Open likes it best. Nothing depends on
// it having run.
func (d *Dir) finish() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	alive := d.dead == nil
	d.dead = ErrClosed
	var err error
	if alive {
		err = typed(d.checkpoint())
	}
	failpoint.Hit("close.release")
	if alive && err == nil {
		err = typed(d.seal())
	}
	return errors.Join(err, d.release())
}

// seal closes pawl.db and marks it with its hash.
func (d *Dir) seal() error {
	tally, err := tallyOf(d.db)
	err = errors.Join(err, d.db.Close())
	if d.db = nil; err != nil {
		return err
	}
	hash, err := d.hashFile(indexFile)
	if err != nil {
		return err
	}
	return d.mark(mark{markClosed, d.epoch, hash, tally})
}

// checkpoint moves everything from the write-ahead log into pawl.db.
func (d *Dir) checkpoint() error {
	failpoint.Hit("close.checkpoint")
	if err := d.db.Script(`PRAGMA synchronous=FULL; PRAGMA wal_checkpoint(TRUNCATE);`); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	failpoint.Hit("close.mark")
	if err := d.mark(mark{state: markClosed, epoch: d.epoch}); err != nil {
		return err
	}
	return d.db.KeepWAL(false)
}

// release closes whatever is open. Without a checkpoint before, SQLite makes one
// now if it can: of what it knows to be synced, whatever else is in the log. Then
// it empties the log, which has to stay there: the mark tells of it.
func (d *Dir) release() error {
	var errs []error
	if d.db != nil {
		errs = append(errs, d.db.Script(`PRAGMA journal_size_limit=0`), d.db.Close())
	}
	if d.root != nil {
		errs = append(errs, d.root.Close())
	}
	if d.lock != nil {
		errs = append(errs, unlock(d.lock))
	}
	return errors.Join(errs...)
}

// read calls f with the connection to pawl.db.
func (d *Dir) read(f func(*sqlite.Conn) error) error {
	d.reading.Lock()
	defer d.reading.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead != nil {
		return d.dead
	}
	return d.indexError(f(d.db))
}

// indexError makes an error of pawl.db say what it means.
func (d *Dir) indexError(err error) error {
	switch {
	case err == nil:
		return nil
	case sqlite.IsDamaged(err) && d.sound():
		return fmt.Errorf("%s could not be read just now: %w", d.at(indexFile), err)
	case sqlite.IsDamaged(err):
		return &CorruptError{File: d.at(indexFile), What: "SQLite cannot read it", Err: err}
	case sqlite.IsBusy(err):
		return fmt.Errorf("%w: %s: %w", ErrLocked, d.at(indexFile), err)
	}
	return typed(err)
}

// sound reports whether pawl.db is in order, or may be, although SQLite has called
// it malformed: it does so when the system could not read a page. The lock is
// held.
func (d *Dir) sound() bool {
	if d.db == nil || d.damaged {
		return false
	}
	found := ""
	_, err := d.db.One(`PRAGMA quick_check(1)`, func(r *sqlite.Row) error { found = r.Text(0); return nil })
	switch {
	case err != nil:
		d.damaged = sqlite.IsDamaged(err)
	case !isUnread(found):
		d.damaged = found != "ok"
	}
	return !d.damaged
}

// at returns the path of a file in the directory, for messages.
func (d *Dir) at(name string) string { return filepath.Join(d.path, name) }
