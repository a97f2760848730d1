package store

import (
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
