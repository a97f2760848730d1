package store

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/seal"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/tally"
	"github.com/pawl-run/pawl/internal/telemetry"
	"github.com/pawl-run/pawl/internal/testhook"
)

// Durability says what a commit survives.
//
// It decides when the bytes are synced, and nothing else: the order of the writes is the same, so
// that with either of them a directory holds whole transactions only.
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
//
// The exported fields are copied once, by Open, and do not change in a life of the directory. Two
// of them say how a directory with a log outside is opened without that: Detach gives the log up,
// LogAway keeps it and refuses what it would get, and with neither the opening fails with
// ErrRemote.
type Options struct {
	Durability    Durability
	Logger        *slog.Logger       // for errors that no caller can be told; nil discards
	KeepArtifacts bool               // runs that fail keep their artifacts
	Codec         Codec              // encrypts the values on the disk; nil leaves them as they are
	CountTenants  bool               // TenantBytes counts; Open then reads a row of each run that has a tenant
	Detach        bool               // a directory that has a log is opened without it, for good
	LogAway       bool               // one that has a log is opened although that is not here: what the log would get fails with ErrRemote
	Outbox        int64              // how many bytes of events wait to be published before commits wait; 0: none are kept
	Metrics       *telemetry.Metrics // get what the log outside takes, and Unfiled counts; nil otherwise
	Hook          *testhook.Hook     // of a test; nil otherwise
	LockWait      time.Duration      // how long Open waits for the holder of the directory; 0: a second, negative: not at all
	GivesWay      bool               // Open lets an engine without it that waits go first, and AwaitEngine tells of one

	scarce   bool    // the disk is full: the reserve is given up
	building bool    // the directory is a copy that is being made
	remote   *remote // of OpenRemote; nil otherwise
}

// A Dir is an open engine directory. It may be used by many goroutines.
//
// A Dir lives from Open to Close, and what follows belongs to one such life: the epoch, the
// counts, the numbers that are given. Four kinds of goroutines use it besides its callers: the
// committer, the workers of the flusher, the one that prepares a checkpoint, and the eraser; a remote
// directory has a fifth, which makes bases. Each ends in Close.
//
// The fields fall into those that Open sets and nobody changes (path to markKey), those that have
// a lock of their own (counters, garbage, flusher, outbox), and those that the lock mu guards:
// the connection, dead, damaged, stale, erase, counts, checkpoints, log and the place in a remote
// log. dead is never taken back, and only Close puts ErrClosed in its place: a Dir that has
// failed stays failed, for nobody can tell what SQLite and the system hold in memory.
type Dir struct {
	path    string
	options Options
	hook    *testhook.Hook
	root    *os.Root
	// lock is the lock file, open for as long as the directory is owned; releaseLock gives it back.
	lock  *os.File
	owned os.FileInfo // of the lock
	// lockPath is where the lock file was, whatever the working directory is now.
	lockPath string
	epoch    state.Epoch
	secret   []byte
	sealer   seal.Sealer
	markKey  string // of the mark of sealed values, "" without one
	// Numbers are given before the commit that needs them, and are not taken back if it fails:
	// gaps are harmless, and a number that came twice would mix two runs, or two spills.
	lastNum   atomic.Int64 // number of the last run
	lastSpill atomic.Int64 // number of the last spill
	reserved  atomic.Int64 // numbers the files of reserveSpace
	full      atomic.Bool  // the last commit found no room on the disk

	evaluating sync.Mutex // held while a condition of a list is evaluated

	reading indexLock // readers take it before mu, so that a commit waits for one of them at most

	mu   indexLock // guards db and dead
	db   *sqlite.Conn
	file os.FileInfo // of the pawl.db that db has open
	dead error       // why nothing works any more

	damaged bool // pawl.db was checked, and is
	stale   bool // the log has content that was deleted
	// shortLog: the reserve of the disk was given up, by Open or a purge, and the disk has little room since
	shortLog  atomic.Bool
	older     bool // while it is opened: the file pawl.db is of an older format
	erase     bool // free pages have, or may have
	eraseTail bool // the tail of the log has what was deleted in this life
	vacuums   bool // pawl.db gives free pages back; Open sets it
	eraser    eraser
	commits   atomic.Int64 // transactions of this life
	counts    runCounts    // of the runs
	tenants   tenantBytes
	standing  standingRuns
	unfiled   tally.Unfiled
	unflushed atomic.Int64              // bytes of the records that handles have not flushed
	sizes     tally.Sizes               // are counted if there are metrics
	copied    atomic.Pointer[copyState] // of the follower; nil without
	tape      sqlite.Tape               // of the transaction under way; the committer's
	tapes     tapes                     // of those that whoever follows the directory has not got yet
	outbox    *eventOutbox
	remote    *remote       // nil if commits count when the directory has them
	logAway   bool          // it has a log, which is not here
	was       lockRecord    // while it is opened: what the last engine has left
	found     []uint32      // while it is opened: the sums of the pages of pawl.db
	mark      mark          // the last one; the committer's
	sums      *os.File      // that holds it; nil if no marks are made
	failed    chan struct{} // closed when dead is ErrFailed
	syncing   sync.Mutex    // of syncLog, which takes mu within
	fenced    atomic.Bool   // that is so because another engine has the directory; set before

	definitions definitions
	garbage     garbage
	committer   committer
	checkpoints checkpointer
	log         commitLog
	redo        redoLog
	flusher     flusher
	sweeping    sync.WaitGroup // the one that removes what a crash has left
	backing     chan struct{}  // holds one while a backup is under way, and for good once closed
	closing     chan struct{}  // closed when Close begins
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
//
// It is the only recovery that the tables need, and it may itself be cut short and made again:
// what a crash can leave behind is never named by anything that is read. Dead records are those
// that the file of their run holds; spills are stray if the commit that was to name them did not
// come. Both go at once, and not in pieces as during a life, since nobody commits yet.
//
// The counts are read here too, before the first commit changes them, and the largest numbers of
// runs and spills, above which this life goes on.
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
	for _, find := range []func() error{d.findUnusedAtOpen, d.loadCounts, d.loadTenantBytes, d.loadOutbox, d.loadVacuum} {
		if err := find(); err != nil {
			return d.indexError(err)
		}
	}
	// If the run with the largest number was purged in an earlier life, its number is given again.
	// That is harmless: the purge has left no row with it, and the names of files have a nonce.
	for text, last := range map[string]*atomic.Int64{maxNum: &d.lastNum, maxSpill: &d.lastSpill} {
		err := d.db.Each(text, func(r *sqlite.Row) error { last.Store(r.Int64(0)); return nil })
		if err != nil {
			return d.indexError(err)
		}
	}
	// A spill that an earlier owner wrote may be in the log, and dropped here: its number must
	// not come again, or a copy that executes both would put parts of two records together.
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
//
// The engine puts it into the state of each run that it loads, and so into the keys of attempts.
func (d *Dir) Epoch() state.Epoch { return d.epoch }

// Secret returns 32 bytes that were drawn when the directory was made, and that its copies
// have. Nothing shows them to anybody; nobody may change what is returned.
//
// A person who has it can make keys of tasks that the engine accepts.
func (d *Dir) Secret() []byte { return d.secret }

// Failed is closed when everything fails with ErrFailed from then on.
//
// It is closed by [Dir.failForGood], and not by Close or Fence, which their caller knows of:
// whoever watches it wants to hear of what nobody has asked for.
func (d *Dir) Failed() <-chan struct{} { return d.failed }

// IsFenced reports whether Failed is closed because another engine has the directory, or its log. It waits for nothing, as
// Err may for the disk.
func (d *Dir) IsFenced() bool { return d.fenced.Load() }

// Err returns why nothing works any more, ErrFailed or ErrClosed, or nil.
func (d *Dir) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dead
}

// indexError returns an error of pawl.db as one that callers can test.
//
// Every error of the connection passes through here or through typedError, so that callers can
// tell three conditions that call for different answers: pawl.db is damaged, and needs a repair;
// the system could not read a page just now, and the same call may succeed; or SQLite's lock is
// held by somebody who should not be there. The lock is held.
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
//
// The check reads all of pawl.db and is made at most once with a bad outcome, which is
// remembered. Without it, one failed read would have an operator restore a backup of a directory
// that is whole.
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

// An indexLock is a mutex. That of a remote directory has a gate before it: a commit may hold the lock for as long as
// its log does not answer, and whoever waits at a channel is seen to wait by a bubble of
// testing/synctest.
//
// The zero value is an unlocked mutex without a gate. The gate is taken first and given back
// last.
type indexLock struct {
	gate chan struct{} // of capacity 1; nil without
	mu   sync.Mutex
}

// Lock takes the lock.
func (l *indexLock) Lock() { _ = l.lockUntil(context.Background()) }

// lockUntil takes the lock, unless ctx ends before: then it fails with its error. Without a gate nobody holds the lock for long.
func (l *indexLock) lockUntil(ctx context.Context) error {
	if l.gate != nil {
		select {
		case l.gate <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	l.mu.Lock()
	return nil
}

// TryLock takes the lock if that goes at once, and reports whether it has.
//
// A gate that was taken is given back if the mutex behind it is not free.
func (l *indexLock) TryLock() bool {
	if l.gate != nil {
		select {
		case l.gate <- struct{}{}:
		default:
			return false
		}
	}
	if l.mu.TryLock() {
		return true
	}
	if l.gate != nil {
		<-l.gate
	}
	return false
}

// Unlock gives the lock back.
func (l *indexLock) Unlock() {
	l.mu.Unlock()
	if l.gate != nil {
		<-l.gate
	}
}

// readIndex calls f with the connection to pawl.db, which nobody else uses meanwhile.
//
// It takes two locks. If many readers come at the same time, one waits for mu, and the others
// behind it for reading: so the committer, which takes mu alone, has one reader before it at
// most. f should be short; large values are decoded after it.
func (d *Dir) readIndex(f func(*sqlite.Conn) error) error {
	return d.readIndexUntil(context.Background(), f)
}

// readIndexUntil is readIndex for a caller who waits for the commit of a log that does not answer no longer than ctx.
func (d *Dir) readIndexUntil(ctx context.Context, f func(*sqlite.Conn) error) error {
	if err := d.reading.lockUntil(ctx); err != nil {
		return err
	}
	defer d.reading.Unlock()
	if err := d.mu.lockUntil(ctx); err != nil {
		return err
	}
	defer d.mu.Unlock()
	if d.dead != nil {
		return d.dead
	}
	return d.indexError(f(d.db))
}
