package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A remote directory is one whose commits are kept in a Log outside of it, which is the truth: the directory
// is a cache of it. A transaction is executed in pawl.db, appended to the Log, and
// committed in pawl.db when the Log has it; so nobody reads what the Log lacks, and what a
// crash keeps from pawl.db comes from the Log when the directory is opened. To open it is to take the Log:
// from then on an earlier owner, wherever it is, commits nothing more.
//
// The Log lacks the changes that concern one copy only: the files of runs, and the removal of
// records from pawl.db because a file has them. The chain of sums begins with the first entry and is
// never broken: an entry that does not name the one before it is damage.

// RemoteOptions say where the commits of a directory are kept.
type RemoteOptions struct {
	Log     Log
	Bases   blob.Store
	Rebase  time.Duration
	Detach  bool
	Keep    time.Duration
	StandBy <-chan struct{}
	Report  func(RemoteReport)
}

// A RemoteReport says how a remote directory stands with its log.
type RemoteReport struct {
	Position Position
	Base     time.Time
	Err      error
}

// Conditions of remote directories.
var (
	// ErrRemote says that the commits of a directory are kept in a log outside of it, without which
	// it cannot be opened.
	ErrRemote = errors.New("the directory's commits are kept in a log outside of it: open it with that; Restore makes a directory of its own of a log, and RemoteOptions.Detach lets one go on without")
	// ErrOtherLog says that a log is of another directory.
	ErrOtherLog = errors.New("the log is of another directory")
	// errBehind says that the log has dropped what a directory lacks.
	errBehind = errors.New("the log has dropped what the directory lacks")
)

// maxRetryPause is the longest pause between two tries to append an entry that commits wait for.
const maxRetryPause = time.Second

// A remote is what an open directory has of its log.
//
// The lock of the index guards place and tail, since both change with a transaction. place says
// up to which entry pawl.db has the log: it is written in each transaction, so that after a crash
// pawl.db tells by itself what it lacks. In memory it may be ahead of pawl.db by the transaction
// under way.
type remote struct {
	o    RemoteOptions
	ctx  context.Context // of calls of the log: ends when nobody waits for it any more
	stop context.CancelCauseFunc

	place  index.LogPlace // how much of the log is in pawl.db; the lock of the index guards it
	has    bool           // pawl.db had one when it was opened
	former state.Epoch    // of pawl.db then
	tail   *logTail       // the last entries
	anew   *anewRequest   // the log is to be begun anew; nil otherwise

	replayed int64      // bytes of changes that were got from the log
	ours     ownedBlobs // of the store of bases

	appending atomic.Pointer[time.Time] // when the entry under way has come to the log; nil without one

	since atomic.Int64  // bytes of changes since the last base was begun
	size  atomic.Int64  // of the pawl.db of the last base
	due   chan struct{} // gets a signal when since is large
	loop  sync.WaitGroup

	ending sync.Once

	mu     sync.Mutex
	report RemoteReport
	end    *time.Timer // of EndLog
}

// OpenRemote opens the directory at path with its log, as [Open] does. If the directory is missing, it is
// made from the log; if it is behind, it gets the rest from there. A directory that had no log until now
// gets an empty one. ctx bounds the opening, which waits for the log.
//
// It fails as Open does, and with ErrOtherLog if the log and the directory do not belong together, with ErrCorrupt
// if an entry or a base that is needed is damaged, missing, or is lacking at the end of the log,
// and with the cause of ctx.
//
// The directory decides what is done. If it is missing, it is made from the last base; if it is
// behind, it is brought to the end of the log; if the log has dropped entries that it lacks, it
// is replaced by a new one from the last base; and if it is ahead, because the log has lost its
// end, it mends the log. Each round of the loop opens the directory once; an error that says what
// is to be done before the next round never reaches the caller.
func OpenRemote(ctx context.Context, path string, o Options, r RemoteOptions) (*Dir, error) {
	if r.Log == nil || r.Bases == nil {
		return nil, inOpen(path, errNoPlace)
	}
	r.Rebase = cmp.Or(r.Rebase, time.Hour)
	if r.Report == nil {
		r.Report = func(RemoteReport) {}
	}
	// errSuperseded, errBehind, errNoDirectory and errGrown say what to do; any other error is
	// final.
	d, err := openBehind(ctx, path, o, r)
	for ; err != nil; d, err = openBehind(ctx, path, o, r) {
		next := err
		switch {
		case errors.Is(err, errSuperseded):
			next = inOpen(path, replaceDirectory(ctx, path, o, r, true))
		case errors.Is(err, errBehind):
			next = inOpen(path, replaceDirectory(ctx, path, o, r, false))
		case errors.Is(err, errGrown):
			next = flushStandBy(ctx, path, o)
		}
		if errors.Is(next, errNoDirectory) {
			r.Report(RemoteReport{})
			next = inOpen(path, r.pauseStandBy(ctx))
		}
		if next != nil {
			return nil, next
		}
	}
	if err := d.remote.startKeeping(ctx, d); err != nil {
		return nil, errors.Join(inOpen(path, err), d.Close())
	}
	return d, nil
}

// inOpen says which directory an error is of.
func inOpen(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("open engine directory %q: %w", path, typedError(err))
}

// openBehind opens a directory that is there, or is fetched, or is to be made, and takes its log.
func openBehind(ctx context.Context, path string, o Options, r RemoteOptions) (*Dir, error) {
	if err := fetchDirectory(ctx, path, o, r); err != nil {
		return nil, inOpen(path, err)
	}
	if r.standsBy() {
		entries, err := os.ReadDir(path)
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, inOpen(path, err)
		case len(entries) == 0:
			return nil, errNoDirectory
		}
	}
	return openJoined(ctx, path, o, &remote{o: r})
}

// openJoined opens a directory and takes its log.
//
// The context of the opening bounds the calls of the log meanwhile, and no longer: a commit waits
// for its log whatever has become of the context with which the directory was opened.
func openJoined(ctx context.Context, path string, o Options, r *remote) (*Dir, error) {
	r.due = make(chan struct{}, 1)
	r.ctx, r.stop = context.WithCancelCause(ctx) // of the opening; startKeeping makes another
	o.remote = r
	d, err := OpenContext(ctx, path, o)
	if err != nil {
		r.stop(err)
	}
	return d, err
}

// startKeeping makes the first base, if it is missing, and lets commits begin. The goroutines that it begins end
// with the directory.
//
// No commit may come before the first base, or the log would have transactions that begin with
// nothing. Nobody commits yet, since the caller does not have the directory.
func (r *remote) startKeeping(ctx context.Context, d *Dir) error {
	if !r.place.Based {
		if err := r.keepBase(ctx, d); err != nil {
			return err
		}
	}
	if err := r.dropFormer(ctx); err != nil {
		return err
	}
	r.stop(nil)
	r.ctx, r.stop = context.WithCancelCause(context.Background())
	if r.since.Load() >= minRebase {
		r.askForBase()
	}
	r.loop.Go(func() { r.makeBases(d) }) // until the directory is closed
	return nil
}

// appendTransaction appends the tape of the transaction that is under way to the log, and
// notes in pawl.db that it is there. The error is a *refusal if the log does not have it.
//
// It is called within the transaction, behind its last statement and before the COMMIT. If the
// process dies before the append, nothing has happened; behind it, the transaction counts, and
// the next opening executes it in pawl.db. Since pawl.db is not committed while the log does not
// answer, nobody reads what another machine could still make untrue by taking the log.
//
// A transaction that leaves no tape concerns this copy alone, and needs no log.
func (d *Dir) appendTransaction(tape []byte) error {
	r := d.remote
	switch {
	case len(tape) == 0:
		return nil
	case d.logAway:
		return &refusal{ErrRemote}
	case r == nil:
		return nil
	}
	d.hook.Hit("remote.append")
	e := &logEntry{kind: entryCommit, at: time.Now(), epoch: d.epoch, changes: [][]byte{tape}}
	begun := time.Now()
	if err := r.appendEntry(e); err != nil {
		return err
	}
	d.options.Metrics.LogAppended(begun)
	d.hook.Hit("remote.kept")
	r.place.Spill = d.lastSpill.Load()
	if n := r.since.Add(int64(len(tape))); n >= max(minRebase, r.size.Load()) {
		r.askForBase()
	}
	if err := index.KeepLogPlace(d.db, r.place); err != nil {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return nil
}

// ConfirmLog fails with ErrFenced if somebody else has taken the log of the directory, with ErrRemote if the directory was opened without, and as a
// commit does. When it succeeds the log was that of this directory when ConfirmLog was called.
//
// It is for a caller who is about to change what the owners of a log share, and the log does not guard: an earlier owner that is idle does
// not notice by itself that it has lost the log. The entry says nothing, and only the owner can append it.
func (d *Dir) ConfirmLog() error {
	switch {
	case d.logAway:
		return ErrRemote
	case d.remote == nil:
		return nil
	}
	return d.noteEntry(&logEntry{kind: entryCommit, at: time.Now(), epoch: d.epoch}, func() {})
}

// appendEntry appends an entry behind the last one, and returns when it is there. The error is a *refusal if the log does not
// have the entry. The lock is held.
//
// The place moves on only when the log has the entry, and so does the tail. A directory that has lost the log
// keeps no tail: its tail is not the end of the log's history.
func (r *remote) appendEntry(e *logEntry) error {
	e.before = r.place.Sum
	data := e.encode()
	begun := time.Now()
	r.appending.Store(&begun)
	p, err := r.appendData(data)
	r.appending.Store(nil)
	if err == nil {
		r.place.Seq, r.place.Sum = p.Seq, p.Sum
		r.tail.keepEntry(data, flagOf(true, e.changes))
	} else if errors.Is(err, ErrFenced) { // somebody else has the end of the log
		r.tail.removeFiles()
	}
	return err
}

// appendData appends the bytes of an entry, and tries again until that is certain, or nobody waits any more.
//
// It must not return before it is certain whether the log has the entry, or that somebody else
// has the log. In between the transaction stays open and all commits wait. Only two things end
// that: the end of the directory, and a log that is damaged; the error is ErrUnknown then. That a
// full log may refuse is believed at the first attempt only: after another error, an earlier
// attempt may have got there. Then the log drops what it can, and the same entry is tried again.
func (r *remote) appendData(data []byte) (Position, error) {
	failed, dropped := error(nil), false
	for pause := firstPause; ; pause = min(2*pause, maxRetryPause) {
		p, err := r.o.Log.Append(r.ctx, data)
		switch {
		case err == nil:
			if r.advance(p); failed != nil {
				r.tell(nil)
			}
			return p, nil
		case failed == nil && errors.Is(err, ErrNoSpace):
			r.askForBase() // behind which the log lets entries go
			return p, &refusal{err}
		case errors.Is(err, ErrFenced):
			return p, &refusal{err}
		case r.ctx.Err() != nil:
			return p, fmt.Errorf("%w: %w", ErrUnknown, context.Cause(r.ctx))
		case errors.Is(err, ErrCorrupt):
			return p, fmt.Errorf("%w: %w", ErrUnknown, err)
		case errors.Is(err, ErrNoSpace) && !dropped:
			room := r.makeRoom(r.ctx)
			if dropped = room == nil; dropped {
				continue
			}
			err = errors.Join(err, room)
		}
		failed = err
		r.tell(err)
		if !waitOut(r.ctx, pause) {
			return p, fmt.Errorf("%w: %w: %w", ErrUnknown, context.Cause(r.ctx), err)
		}
	}
}

// makeRoom has a log that is full drop what is older than its last base, and has a new one made, behind which it can drop more.
//
// It needs no lock, and nothing of the directory: a commit may be waiting for the room.
func (r *remote) makeRoom(ctx context.Context) error {
	r.askForBase()
	_, err := dropEntries(ctx, r.o.Log, time.Now(), 1)
	return err
}

// askForBase has a base made soon.
func (r *remote) askForBase() {
	select {
	case r.due <- struct{}{}:
	default:
	}
}

// advance notes for reports how far the log is.
func (r *remote) advance(p Position) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Position = p
}

// tell reports how the directory stands with its log.
func (r *remote) tell(err error) {
	r.mu.Lock()
	r.report.Err = err
	report := r.report
	r.mu.Unlock()
	r.o.Report(report)
}

// appendFailed undoes a transaction that is not in the log, or may not be.
//
// After a refusal nothing has happened, and the directory goes on. If somebody else has the log,
// or nobody knows, it fails for good: what it would commit next might come behind an entry that
// it does not have.
func (d *Dir) appendFailed(err error) error {
	if no := (*refusal)(nil); errors.As(err, &no) && !errors.Is(err, ErrFenced) {
		return d.rollbackAfter(no.err) // everything is as it was
	}
	return d.failForGood(d.rollbackAfter(err))
}

// EndLog gives the log of a remote directory a last while to answer: when it has been silent for that long, the commit that waits for it fails
// with ErrUnknown, and so do all later ones. Close calls it.
//
// Without it a Close would wait for as long as the log is silent. A log that answers is not ended, however long Close takes.
func (d *Dir) EndLog() {
	if r := d.remote; r != nil {
		r.ending.Do(func() { r.limitSilence(drainTime) })
	}
}

// limitSilence looks after a while whether an entry has waited for the log for drainTime, and so on until one has, or the directory is closed.
func (r *remote) limitSilence(after time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end = time.AfterFunc(after, func() {
		left := drainTime
		if since := r.appending.Load(); since != nil {
			left -= time.Since(*since)
		}
		switch {
		case left <= 0:
			r.stop(fmt.Errorf("%w: the log did not answer within %v", ErrClosed, drainTime))
		case r.ctx.Err() == nil:
			r.limitSilence(left)
		}
	})
}

// leaveLog ends what uses the log. Nothing is committed any more.
//
// leaveLog is called by Close when the committer has ended.
func (d *Dir) leaveLog() {
	if r := d.remote; r != nil {
		r.loop.Wait()
		r.stop(ErrClosed)
		r.mu.Lock()
		r.end.Stop()
		r.mu.Unlock()
		if err := r.tail.closeFile(); err != nil {
			d.options.Logger.Warn("the last entries of the log may not be in the directory", "file", d.pathOf(tailFile), "error", err)
		}
	}
}

// While it stands by, a directory is as one that was left behind: pawl.db is brought up to the end of its log again and
// again. The files of runs are not in the log, so its records stay in pawl.db; when there are many, they are flushed as those of an engine that has crashed.

var (
	// errNoDirectory says that there is nothing yet that could stand by.
	errNoDirectory = errors.New("the log has no base yet")
	// errGrown says that a directory that stands by has much to be flushed.
	errGrown = errors.New("the directory has grown")
)

const (
	standByPause = time.Second // between two looks at the log
	standByBytes = 64 << 20    // of changes after which they are flushed
	getLogged    = `SELECT id, num, 0 FROM runs WHERE seq > filed AND ? <= 0 AND num > ? AND num IN (SELECT key >> 32 FROM log) ORDER BY num LIMIT ?`
)

// standsBy reports whether the log is not to be taken yet.
//
// Its answer changes once, from true to false, when the caller closes the channel.
func (r *RemoteOptions) standsBy() bool {
	if r.StandBy == nil {
		return false
	}
	select {
	case <-r.StandBy:
		return false
	default:
		return true
	}
}

// pauseStandBy waits until it is time to look at the log again, or to take it.
func (r *RemoteOptions) pauseStandBy(ctx context.Context) error {
	timer := time.NewTimer(standByPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.StandBy:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// standBy brings pawl.db up to the end of its log, once or, as long as it is not to be taken, again and again.
//
// Nothing is appended to the log meanwhile, so its owner notices nothing. An error that may pass,
// such as a log that does not answer, is reported and tried again; one that says that this
// directory cannot go on as it is ends the standing by.
func (d *Dir) standBy() error {
	r := d.remote
	for {
		waits := r.o.standsBy()
		err := d.catchUp()
		if errors.Is(err, ErrOtherLog) { // another one came before this one had a base, and was made of nothing
			if empty, unread := index.IsEmpty(d.db); unread == nil && empty {
				err = errBehind
			}
		}
		if !waits {
			return err
		}
		for _, final := range []error{errBehind, errAnew, ErrCorrupt, ErrVersion, ErrOtherLog, ErrNoSpace} {
			if errors.Is(err, final) {
				return err
			}
		}
		if d.checkpointIfLong(); d.dead != nil {
			return d.dead
		}
		r.advance(Position{Seq: r.place.Seq, Sum: r.place.Sum})
		r.tell(err)
		if r.replayed >= d.hook.StandByBytes(standByBytes) {
			return errGrown
		}
		if err := r.o.pauseStandBy(r.ctx); err != nil {
			return err
		}
		if err := d.checkOwnerAtOpen(); err != nil {
			return err
		}
	}
}

// flushStandBy has the records flushed that came into a directory from its log.
//
// It opens the directory as one whose log is away, so that records are flushed to files, which
// concerns this copy alone, and nothing can be committed.
func flushStandBy(ctx context.Context, path string, o Options) error {
	o.LogAway = true // nothing is committed
	d, err := OpenContext(ctx, path, o)
	if err != nil {
		return err
	}
	err = d.flushLogged(ctx)
	return errors.Join(err, d.Close())
}

// flushLogged has all records flushed that are in pawl.db. A run that cannot be loaded is left as it is: whoever
// takes the log is told.
//
// The runs are those with more records in the index than in their file.
func (d *Dir) flushLogged(ctx context.Context) error {
	ids, err := d.queryIDs(getLogged, 0)
	if err != nil {
		return err
	}
	var last workflow.RunID
	var failed error // of the last one: the log gets a line for all
	left := 0
	for _, id := range ids {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := d.flushRun(id); err != nil {
			last, failed, left = id, err, left+1
		}
	}
	if left > 0 {
		d.options.Logger.Warn("runs cannot be flushed yet", "directory", d.path, "runs", left, "run", string(last), "error", failed)
	}
	return nil
}

// flushRun has the records of a run flushed that are in pawl.db.
func (d *Dir) flushRun(id workflow.RunID) error {
	r, s, events, err := d.Load(id)
	if err != nil {
		return err
	}
	d.flusher.waitForBacklog()
	r.Flush(s.TakeChanges(), events, func(error) {}) // what fails stays in pawl.db
	return r.Close()
}
