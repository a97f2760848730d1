package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// FollowOptions say where a copy of the directory is kept while it changes.
type FollowOptions struct {
	Log       Log                     // of the changes
	Bases     blob.Store              // of bases, and of the blobs that the runs refer to
	Blobs     blob.Store              // those of the directory; nil if they are kept elsewhere
	HoldBlobs func() (release func()) // keeps blobs of the directory from being deleted while a base is made; nil if nobody deletes any
	Interval  time.Duration           // how long changes wait for others; 0 is a second
	Rebase    time.Duration           // after how long there is a new base, if anything has changed; 0 is an hour
	Keep      time.Duration           // for how long one can go back; 0 is a week
	// Report, which may be nil and must not block, is called when something was kept, and when something failed.
	Report func(FollowReport)
}

// A FollowReport says how far a copy of the directory is.
type FollowReport struct {
	Position Position
	At       time.Time
	Waiting  int
	Base     time.Time
	Err      error
}

// ErrFollowed says that the directory has a follower already.
var ErrFollowed = errors.New("the directory has a follower already")

// The pauses after failures.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 30 * time.Second
)

// minRebase is how many bytes of changes there are at least between two bases, unless FollowOptions.Rebase has passed.
const minRebase = 64 << 20

// lastTry is for how long a follower whose context has ended still tries to write the changes that wait.
const lastTry = time.Second

// drainTime is for how long Close waits for the last changes to be kept.
const drainTime = 10 * time.Second

// Follow keeps a copy of the directory up to date until ctx ends or the directory is closed, from which [Restore] makes a directory again. First comes a base;
// from then on each transaction goes into the log, some Interval after its commit, and from time to time a new base, so that the log does not grow. Nobody
// waits for it: what was committed last is lost with the disk. If the log or the store of bases fails, or is slow, it is tried again, with growing pauses;
// where too much waits, a new base is made. Follow returns nil when everything that was committed before Close is kept, the cause of ctx, ErrFollowed,
// ErrFailed, ErrNoBase if Close came before the first base was complete, ErrFenced if somebody else has taken the log, or ErrOtherLog if it is of another directory.
//
// A follower loses nothing but the last moments: an entry is repeated until the log has it, each entry follows the one before, and the changes that a
// base lacks stand in the log behind the opening or the base before it, from where a restoration begins to look. Everything that the log names can
// always be restored, whatever is cut short.
func (d *Dir) Follow(ctx context.Context, o FollowOptions) error {
	if o.Log == nil || o.Bases == nil {
		return fmt.Errorf("follow: %w", errNoPlace)
	}
	o.Interval, o.Rebase, o.Keep = cmp.Or(o.Interval, time.Second), cmp.Or(o.Rebase, time.Hour), cmp.Or(o.Keep, 7*24*time.Hour)
	if o.Report == nil {
		o.Report = func(FollowReport) {}
	}
	if o.HoldBlobs == nil {
		o.HoldBlobs = func() func() { return func() {} }
	}
	resume, err := d.pauseRedo(ctx)
	if err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	defer resume()
	err = d.readIndex(func(*sqlite.Conn) error { return d.tapes.beginKeeping() }) // between two commits
	if err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	defer d.tapes.endKeeping()
	defer d.copied.Store(nil)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	f := &follower{dir: d, o: o, from: time.Now(), bases: make(chan builtBase, 1), ours: &ownedBlobs{}}
	go func() { // until the follower has ended
		select {
		case <-d.committer.done:
			f.limitDrain(ctx, stop)
		case <-ctx.Done():
		}
	}()
	err = f.followUntil(ctx)
	stop(err)
	f.building.Wait()
	if err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	return nil
}

// A follower is one that is at work.
//
// One goroutine owns its fields, but for those behind mu, which only it changes except for baseErr, and bases, through which the
// one that makes a base hands it over. There is at most one base under way.
//
// pending is an entry that the log may have or not, because the answer was lost. It is appended again as it is, before anything else: another entry
// in its place would be one behind the same entry.
type follower struct {
	dir      *Dir
	o        FollowOptions
	from     time.Time      // when it began
	last     Position       // of the log
	pending  *logEntry      // that the log may not have got
	partial  bool           // more waited when pending was taken
	shipped  time.Time      // the log has all changes of this life from before, but for those that were lost
	bases    chan builtBase // that is complete
	building sync.WaitGroup // the goroutine that makes one
	busy     bool           // there is one
	stale    bool           // a base that is begun from now on is needed: changes were lost
	since    int64          // bytes of changes since the last base was begun
	begun    time.Time      // when it was
	size     int64          // of its pawl.db
	ours     *ownedBlobs    // of the store of bases

	mu      sync.Mutex
	based   bool // the log has a base that the changes behind it go on from: without one they cannot be restored
	report  FollowReport
	logErr  error // of the last try to write to the log
	baseErr error // of the last try to make a base
}

// A copyState says how far the copy of a follower is.
type copyState struct {
	at    time.Time // it has everything up to this moment, or the follower began then
	lacks bool      // it lacks something
	waits bool      // something waited
}

// limitDrain ends a follower of a directory that is closed, if it takes too long.
func (f *follower) limitDrain(ctx context.Context, stop context.CancelCauseFunc) {
	if waitOut(ctx, drainTime) {
		stop(fmt.Errorf("%w: the last changes could not be kept within %v", ErrClosed, drainTime))
	}
}

// followUntil takes the log and appends to it until nothing more can come.
//
// Taking the log comes first, which fences a follower of an earlier life, or on another machine.
// A base is begun at once, since the entries of this life mean nothing without one.
func (f *follower) followUntil(ctx context.Context) error {
	if err := f.retryCall(ctx, &f.logErr, f.checkCopy); err != nil {
		return err
	}
	if err := f.retryCall(ctx, &f.logErr, f.takeLog); err != nil {
		return err
	}
	f.startBase(ctx)
	tick := time.NewTicker(f.o.Interval)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			f.keepSome(ctx)
			err = context.Cause(ctx)
		case <-f.dir.failed:
			err = f.dir.Err()
		case <-f.dir.committer.done:
			return f.keepLast(ctx)
		case b := <-f.bases:
			f.busy = false
			err = f.retryCall(ctx, &f.logErr, func(ctx context.Context) error { return f.keepBase(ctx, b) })
		case <-tick.C:
			err = f.retryCall(ctx, &f.logErr, f.shipChanges)
		}
		if err != nil {
			return err
		}
		if !f.busy && f.isBaseDue() {
			f.startBase(ctx)
		}
	}
}

// keepSome appends what waits when the follower is ended, if that goes at once.
//
// Its outcome is reported and not returned: the follower ends with the cause of its context.
func (f *follower) keepSome(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTry)
	defer cancel()
	f.tellOutcome(&f.logErr, f.shipChanges(ctx))
}

// keepLast appends the last changes of a directory that is closed.
//
// A life that never came to a base has left nothing from which it could be restored, and says so.
func (f *follower) keepLast(ctx context.Context) error {
	f.building.Wait()
	err := f.retryCall(ctx, &f.logErr, f.shipChanges)
	select {
	case b := <-f.bases: // it was complete before
		if err == nil {
			err = f.retryCall(ctx, &f.logErr, func(ctx context.Context) error { return f.keepBase(ctx, b) })
		}
	default:
	}
	if err == nil && !f.based {
		err = fmt.Errorf("%w: the directory was closed before one was complete: what was committed in this life of it is not kept", ErrNoBase)
	}
	return err
}

// retryCall calls try until it succeeds, with growing pauses, or there is no sense in it. last is the error of the last try, which is told.
//
// It gives up where trying again cannot help: somebody else has the log, or the directory or the log is broken.
func (f *follower) retryCall(ctx context.Context, last *error, try func(context.Context) error) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := try(ctx)
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx) // it has not failed
		}
		f.tellOutcome(last, err)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrFenced) || errors.Is(err, ErrClosed) || errors.Is(err, ErrFailed) || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrOtherLog):
			return err
		}
		if !waitOut(ctx, pause) {
			return context.Cause(ctx)
		}
	}
}

// waitOut waits out a pause, and reports whether it is over before ctx is.
func waitOut(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// tellOutcome reports how far the copy is, and what became of the last try, for which last is logErr or baseErr.
func (f *follower) tellOutcome(last *error, err error) {
	f.mu.Lock()
	*last = err
	f.report.Waiting, f.report.Err = f.dir.tapes.countWaiting(), errors.Join(f.logErr, f.baseErr)
	r := f.report
	c := copyState{at: r.At, lacks: !f.based || f.logErr != nil, waits: r.Waiting > 0}
	if c.at.IsZero() {
		c.at = f.from
	}
	f.dir.copied.Store(&c)
	f.mu.Unlock()
	f.o.Report(r)
}

// CopyBehind returns when everything was committed that the copy of the follower has, if it lacks something, or when that began, if it has nothing;
// zero if it lacks nothing that is known. It is false if nobody follows, or the copy is not begun. It waits for no commit.
func (d *Dir) CopyBehind() (at time.Time, ok bool) {
	c := d.copied.Load()
	if c != nil && (c.lacks || c.waits && d.tapes.countWaiting() > 0) {
		at = c.at
	}
	return at, c != nil
}

// raiseAt notes that the copy has everything up to a moment.
func (r *FollowReport) raiseAt(at time.Time) {
	if r.At.Before(at) {
		r.At = at
	}
}

// advance notes that the log has an entry.
func (f *follower) advance(p Position, change func(*FollowReport)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last, f.report.Position = p, p
	change(&f.report)
}

// checkCopy fails with ErrOtherLog if the log has a base of another directory, which this one would hide, and drop some day.
//
// The first base that can be read tells, for all are of one directory. Where nothing can be read nothing is known, and the next base mends the copy.
func (f *follower) checkCopy(ctx context.Context) error {
	err := readLog(ctx, f.o.Log, Position{}, func(_ Position, e *logEntry) error {
		if e.kind != entryBase {
			return nil
		}
		switch err := compareSecret(ctx, f.o.Bases, e.base, f.dir.secret); {
		case isUnreadable(err):
			return nil
		case err != nil:
			return err
		}
		return errFound
	})
	if errors.Is(err, errFound) || isUnreadable(err) {
		return nil
	}
	return err
}

// errFound ends the reading of a log.
var errFound = errors.New("it is found")

// isUnreadable reports whether an error is of a copy that is damaged or sealed under another key, which asking again does not change.
func isUnreadable(err error) bool {
	return slices.ContainsFunc([]error{blob.ErrMissing, blob.ErrDamaged, ErrCorrupt, ErrVersion, ErrSealed}, func(of error) bool { return errors.Is(err, of) })
}

// takeLog makes this follower the writer of the log. The entry has the sum of the last one, so that the chain goes on across lives.
func (f *follower) takeLog(ctx context.Context) error {
	p, err := f.o.Log.Take(ctx, func(last Position) []byte {
		e := logEntry{kind: entryOpen, at: time.Now(), epoch: f.dir.epoch, before: last.Sum}
		return e.encode()
	})
	if err == nil {
		f.advance(p, func(*FollowReport) {})
	}
	return f.makeRoom(ctx, err)
}

// appendEntry appends an entry behind the last one.
func (f *follower) appendEntry(ctx context.Context, e *logEntry, change func(*FollowReport)) error {
	e.before = f.last.Sum
	p, err := f.o.Log.Append(ctx, e.encode())
	if err == nil {
		f.advance(p, change)
	}
	return f.makeRoom(ctx, err)
}

// makeRoom has a log that is full drop what is older than is to be kept, so that the next try finds room. It returns the error of this try.
func (f *follower) makeRoom(ctx context.Context, err error) error {
	if !errors.Is(err, ErrNoSpace) {
		return err
	}
	if _, failed := dropEntries(ctx, f.o.Log, time.Now().Add(-f.o.Keep), 1); failed != nil {
		return fmt.Errorf("%w; old entries cannot be dropped: %s", err, failed.Error()) // which is tried again, whatever it is
	}
	return err
}

// shipChanges appends what was committed, with the blobs that it refers to.
//
// The blobs come before the entry that refers to them: a crash in between leaves blobs without an
// entry, which are dropped some day, and never an entry whose blobs are missing.
func (f *follower) shipChanges(ctx context.Context) error {
	for {
		if f.pending == nil {
			e, more, lost := f.dir.tapes.takeSome()
			if lost {
				f.loseBase()
			}
			if len(e.changes) == 0 {
				return nil
			}
			e.epoch = f.dir.epoch
			f.pending, f.partial = &e, more
			c := *f.dir.copied.Load()
			c.waits = true // for as long as the log does not answer
			f.dir.copied.Store(&c)
		}
		e := f.pending
		if err := f.shipBlobs(ctx, e); err != nil {
			return err
		}
		err := f.appendEntry(ctx, e, func(r *FollowReport) {
			if !f.partial {
				f.shipped = e.at
			}
			if f.based {
				r.raiseAt(f.shipped)
			}
		})
		if err != nil {
			return err
		}
		for _, tape := range e.changes {
			f.since += int64(len(tape))
		}
		f.pending = nil
	}
}

// loseBase notes that changes were lost: those that come behind them cannot be restored before there is another base.
func (f *follower) loseBase() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stale, f.based = true, false
}

// shipBlobs puts the blobs that changes refer to.
func (f *follower) shipBlobs(ctx context.Context, e *logEntry) error {
	if f.o.Blobs == nil {
		return nil
	}
	return eachRef(e, func(hash string) error {
		err := copyMissing(ctx, f.o.Blobs, f.o.Bases, hash)
		if errors.Is(err, blob.ErrMissing) || errors.Is(err, blob.ErrDamaged) {
			f.dir.options.Logger.Warn("a blob is not in the copy of the directory", "blob", hash, "error", err)
			return nil // it may have been deleted meanwhile, with whoever referred to it
		}
		return err
	})
}

// eachRef calls do with the blobs that the changes of an entry refer to.
func eachRef(e *logEntry, do func(hash string) error) error {
	for _, tape := range e.changes {
		err := sqlite.EachStatement(tape, func(s *sqlite.Statement) error {
			if hash, ok := firstText(s); ok && s.Text == putRef {
				return do(hash)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func firstText(s *sqlite.Statement) (string, bool) {
	if len(s.Args) == 0 {
		return "", false
	}
	text, ok := s.Args[0].(string)
	return text, ok
}

// maxTapes bounds the bytes of transactions that wait for whoever follows the directory. A follower that is further behind makes a new base instead:
// it never holds commits up.
const maxTapes = 64 << 20

// tapes are the transactions that were committed since a follower began, and that it has not taken yet: for each, the statements that the copy needs
// as well. Changes of files are not among them: each copy brings its files up to date by itself.
//
// It is a queue between the committer, which adds and never waits, and one follower, which takes. Transactions are counted from the beginning of the
// life: waiting are those with the last numbers, without a gap, so that a follower can say which one an entry begins with.
type tapes struct {
	mu      sync.Mutex
	on      bool
	closed  bool          // nobody may begin any more
	ended   chan struct{} // closed by endKeeping
	lost    bool          // some were dropped, because there were too many
	last    int64         // number of the last transaction that was added
	waiting [][]byte      // the last ones, in order
	bytes   int           // of those
}

// beginKeeping has transactions kept from now on. It fails with ErrFollowed and ErrClosed.
//
// It is called between two commits, so that a base which is begun afterwards has every transaction that is not kept.
func (t *tapes) beginKeeping() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return ErrClosed
	case t.on:
		return ErrFollowed
	}
	t.on, t.lost, t.waiting, t.bytes, t.ended = true, false, nil, 0, make(chan struct{})
	t.last++ // no transaction has this number, so this follower cannot continue the copy of an earlier one
	return nil
}

// endKeeping is the inverse of beginKeeping.
func (t *tapes) endKeeping() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.on, t.waiting, t.bytes = false, nil, 0
	close(t.ended)
}

// waitForEnd lets nobody begin from now on, and waits until whoever has begun has ended.
func (t *tapes) waitForEnd() {
	t.mu.Lock()
	t.closed = true
	on, ended := t.on, t.ended
	t.mu.Unlock()
	if on {
		<-ended
	}
}

// countWaiting returns how many transactions wait.
func (t *tapes) countWaiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting)
}

func (t *tapes) isOn() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.on
}

// addTransaction adds a transaction that is committed now.
//
// When there are too many all are dropped, and those that follow, until the follower has noticed:
// a copy with a gap is of no use, and a new base makes the gap good.
func (t *tapes) addTransaction(tape []byte) {
	if len(tape) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.on {
		return
	}
	t.last++
	if t.bytes += len(tape); t.lost || t.bytes > maxTapes {
		t.lost, t.waiting, t.bytes = true, nil, 0
	} else {
		t.waiting = append(t.waiting, tape)
	}
}

// lastNumber returns the number of the last transaction.
func (t *tapes) lastNumber() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// takeSome returns an entry of the transactions that wait, as many as fit in. more says that others wait behind them: if not, the entry
// ends with the last one before its instant. lost says that some before them were dropped.
//
// At least one is taken, whatever its size. Taken once, they are the follower's, which keeps an entry until the log has it.
func (t *tapes) takeSome() (e logEntry, more, lost bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e = logEntry{kind: entryChanges, at: time.Now(), number: t.last - int64(len(t.waiting)) + 1}
	n, bytes := 0, 0
	for n < len(t.waiting) && (n == 0 || bytes+len(t.waiting[n]) <= maxEntry) {
		bytes += len(t.waiting[n])
		n++
	}
	e.changes, t.waiting = t.waiting[:n:n], t.waiting[n:]
	t.bytes -= bytes
	lost, t.lost = t.lost, false
	return e, len(t.waiting) > 0, lost
}
