package store

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/testhook"
)

// A commitRequest has the statements that one caller wants committed.
//
// A handle of a run has one, which it uses for each of its commits: there is one at a time. err
// is written under the lock of the directory, and read by the caller after the answer.
type commitRequest struct {
	apply  func(*sqlite.Conn) error // statements; a *refusal has written nothing
	local  bool                     // they concern this copy of the directory alone
	run    *Run                     // whose commit may go into the redo log; nil if it may not
	bytes  int                      // that they write, about, where it may be much
	answer chan error               // of capacity 1
	err    error
}

// A refusal is an error of one request that leaves the transaction as it was.
//
// It is how a request says no for reasons of its own: the run exists, another handle has
// committed, the root has no room. The other requests of the batch are committed. Any other error
// fails the transaction as a whole, since SQLite may have undone it already.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// refuseRequest returns the error of a request that is refused.
func refuseRequest(format string, args ...any) error { return &refusal{fmt.Errorf(format, args...)} }

// commitBatch commits a batch in one transaction, or each request in its own if a
// statement of one fails.
//
// One request with a statement that fails must not fail those that happened to come with it: they
// have other owners, who would load their runs again. They are not tried again if the directory
// is dead, or if it is not known whether the transaction took place: a second one could then be
// refused behind the first, and its caller would be told that another handle has committed.
func (d *Dir) commitBatch(batch []*commitRequest) {
	err := d.runTransaction(batch)
	if err == nil || d.dead != nil || errors.Is(err, ErrUnknown) || len(batch) == 1 {
		d.noteRoom(err)
		for _, r := range batch {
			if err != nil {
				r.err = err
			}
		}
		return
	}
	for i := range batch {
		d.commitBatch(batch[i : i+1])
	}
}

// runTransaction runs a batch as one transaction. It leaves the refusals with the
// requests and returns an error that concerns all of them.
//
// The steps, and what holds if the process dies behind each of them:
//
//  1. We still own the lock file. If not, nothing is begun, ever again. For a batch that the redo log takes
//     see appendBatch.
//  2. BEGIN, and the statements of all requests: SQLite writes frames, if any, without an end.
//     Nothing has happened.
//  3. For a remote directory, the log has the tape: it has happened, although pawl.db lacks it.
//     The next Open, here or elsewhere, gets it from the log.
//  4. COMMIT: the end of the transaction is in the write-ahead log, in the hands of the system.
//     It survives the process, but perhaps not a loss of power.
//  5. The log is synced: it survives that too.
//  6. We still own the lock file. If not, a new owner may have opened the directory between 1 and
//     4, without these records, and has perhaps dispatched what they say is done. Nobody is told
//     that they are committed.
//
// Only then do the callers get their answers, and only then do effects leave. An error of steps 4
// to 6 is ErrUnknown within ErrFailed: the caller must not say that it has not happened. If a
// COMMIT found no room, the error is ErrUnknown as well, but the directory goes on.
func (d *Dir) runTransaction(batch []*commitRequest) error {
	if d.dead != nil {
		return d.dead
	}
	if d.redo.isTaking() {
		d.recycleIfHalfFull()
	}
	if d.redo.takesBatch(batch) {
		d.hook.Hit("commit.begin")
		return d.appendBatch(batch)
	}
	if err := d.checkOwner(); errors.Is(err, ErrFenced) {
		return d.failForGood(err)
	} else if err != nil {
		return err
	}
	d.hook.Hit("commit.begin")
	if err := d.syncBefore(); err != nil {
		return err
	}
	if _, err := d.db.Exec(begin); err != nil {
		return d.indexError(err)
	}
	if err := d.applyAll(batch); err != nil {
		return d.rollbackAfter(d.indexError(err))
	}
	d.hook.Hit("commit.inside")
	tape := d.tape.Take()
	if err := d.appendTransaction(tape); err != nil {
		return d.appendFailed(err)
	}
	if _, err := d.db.Exec(commit); err != nil {
		return d.commitFailed(err)
	}
	if err := d.syncCommit(); err != nil {
		return d.failForGood(fmt.Errorf("%w: sync %s: %w", ErrUnknown, d.pathOf(indexWAL), typedError(err)))
	}
	// The counts in memory change with the commit that they belong to, and not before: a rollback
	// has nothing to undo here.
	d.keepRuns()
	d.tenants.keepBytes()
	d.sizes.Keep()
	d.tapes.addTransaction(tape)
	d.commits.Add(1)
	d.hook.Hit("commit.done")
	if err := d.checkOwner(); err != nil {
		// A new owner may have read pawl.db before this was in it.
		return d.failForGood(fmt.Errorf("%w: %w", ErrUnknown, err))
	}
	return nil
}

const (
	begin    = `BEGIN IMMEDIATE`
	commit   = `COMMIT`
	rollback = `ROLLBACK`
)

// applyAll executes the statements of a batch within the transaction under way. The error of one request that is
// refused is that request's; any other error fails the batch. The tape records the statements that a
// follower or a log must have too.
//
// The order of the requests is that of their coming. Counts of runs are written last and once for
// all of them: ten runs of one workflow that end together change one row, and not the same row
// ten times.
//
// Requests that concern this copy alone are left off the tape, statement by statement, so that
// one transaction may have both kinds.
func (d *Dir) applyAll(batch []*commitRequest) error {
	if err := d.checkFence(); err != nil {
		return err
	}
	d.counts.clearChanges()
	d.redo.clearMoved()
	clear(d.tenants.changed)
	d.sizes.Forget()
	tape := (*sqlite.Tape)(nil)
	if d.tape.Reset(); d.remote != nil || d.logAway || d.tapes.isOn() {
		tape = &d.tape
		defer d.db.RecordTo(nil)
	}
	for _, r := range batch {
		if d.db.RecordTo(tape); r.local {
			d.db.RecordTo(nil)
		}
		r.err = r.apply(d.db)
		if r.err == nil {
			continue
		}
		no := (*refusal)(nil)
		if !errors.As(r.err, &no) {
			return r.err
		}
		r.err = no.err
	}
	d.db.RecordTo(tape)
	if err := d.counts.writeChanges(d.db); err != nil {
		return err
	}
	return d.armRedo(d.db)
}

// checkFence fails if another engine has written its epoch into pawl.db.
//
// It is the last line behind the lock file and SQLite's own lock, for file systems on which both
// deceive: whoever opens the directory writes its epoch first, so an engine that finds another
// one is no longer the owner. It is read within the transaction, whose BEGIN IMMEDIATE keeps any
// other from writing it before the COMMIT. One row is read for each transaction.
func (d *Dir) checkFence() error {
	found, err := index.ReadEpoch(d.db)
	if err == nil && found != d.epoch {
		err = d.failForGood(fmt.Errorf("%w: its epoch is in %s", ErrFenced, d.pathOf(indexFile)))
	}
	return err
}

// rollbackAfter undoes the transaction, unless SQLite has done so already, and returns
// the cause.
//
// SQLite rolls back by itself after some errors, such as that of a full disk, and then refuses
// the ROLLBACK. Whether that was so is seen by beginning another one: if that goes, none is under
// way. If not, the connection is in a state that nobody knows, and the directory has failed.
func (d *Dir) rollbackAfter(cause error) error {
	if _, err := d.db.Exec(rollback); err != nil && d.dead == nil {
		if _, err := d.db.Exec(begin); err != nil {
			return d.failForGood(fmt.Errorf("cannot roll back: %w: after: %w", err, cause))
		}
		_, _ = d.db.Exec(rollback) // it has just begun
	}
	return cause
}

// commitFailed returns the error of a COMMIT that failed. After an error of the disk
// nothing that SQLite or the system still holds in memory can be trusted.
//
// A full disk is not such an error: the transaction is rolled back, and the engine may go on when
// there is room again. In a remote directory the log has the transaction already, so that pawl.db
// lacks what counts; it is opened again, and gets it.
func (d *Dir) commitFailed(err error) error {
	err = unknownAfter(err)
	if errors.Is(err, ErrNoSpace) && d.remote == nil { // the log has it
		return d.rollbackAfter(err)
	}
	return d.failForGood(err)
}

// unknownAfter returns the error of a commit of which nobody knows whether it took place: a full disk is told first, since room is what helps.
func unknownAfter(err error) error {
	if err = typedError(err); errors.Is(err, ErrNoSpace) {
		return fmt.Errorf("%w; %w", err, ErrUnknown)
	}
	return fmt.Errorf("%w: %w", ErrUnknown, err)
}

// failForGood makes everything fail with ErrFailed from now on, and returns that. The
// lock is held.
//
// It is the answer to every condition in which going on might acknowledge what is not on the
// disk, or write into what another engine owns. Opening the directory again reads it from the
// disk, and so finds out what is true. The first cause is kept; those that follow come of it.
func (d *Dir) failForGood(cause error) error {
	if d.dead == nil {
		d.dead = fmt.Errorf("%w: %w", ErrFailed, cause)
		d.fenced.Store(errors.Is(cause, ErrFenced))
		close(d.failed)
	}
	return d.dead
}

// Bounds of the group commit. The requests that one transaction takes are a batch.
//
// They bound what one caller can make all others wait for: a transaction that is under way cannot
// be interrupted, so a large request ends the batch that it is in, and what is larger than that
// is split before it comes here, by spillLarge and trimSome.
const (
	maxQueue = 1024    // requests that wait; more callers block
	maxBatch = 512     // requests in one transaction
	maxBytes = 1 << 20 // after which a transaction takes no further request
)

// A committer is the goroutine that commits for all runs, so that runs which commit at the same
// time share one transaction and one sync, which is most of what a commit costs. It takes all requests that
// wait when it comes to them. A lone caller is not delayed in the hope of others; where the last batch had
// several requests, the goroutine steps back before the next one, so that requests which are about to come are
// in it too. A caller that commits alone does so in its own goroutine: two hand-overs would take as long as
// the commit.
//
// Requests are committed in the order in which they came into the queue, but for a caller that
// commits by itself, which finds the queue empty. That order is not promised to anybody: the
// requests of one run follow each other because its owner waits for the answer to each.
type committer struct {
	queue   chan *commitRequest
	quit    chan struct{} // closed by stop, when nobody hands over any more
	done    chan struct{} // closed when the goroutine has ended
	sending sync.RWMutex  // held while a request is handed over
	stopped atomic.Bool   // nobody hands over any more, but who holds sending
	waiting atomic.Int64  // requests handed to the goroutine that are in no transaction yet
	single  atomic.Int64  // transactions of one request since the last one of more; changed with Dir.mu held

	// For the goroutine alone:
	batch []*commitRequest // that is being committed
	pause stepBack         // before the next one
}

// alone is after how many transactions of one request each the next caller commits by
// itself. Where several runs commit at the same time, the goroutine lets more of them come
// together than callers would that find nobody before them.
//
// So many transactions in a row with one request each are a sign that there is one run that
// commits, and not several that happened to miss each other.
const alone = 16

// isLone reports whether one caller commits at a time, and has done so for a while.
func (c *committer) isLone() bool { return c.single.Load() >= alone }

// startLoop begins the goroutine, as the last step of Open: nobody may commit before.
func (c *committer) startLoop(d *Dir) {
	c.queue = make(chan *commitRequest, maxQueue)
	c.quit = make(chan struct{})
	c.done = make(chan struct{})
	go c.commitLoop(d) // until stop
}

// stopLoop commits what is queued and ends the goroutine.
//
// Requests from now on are answered with ErrClosed. Close calls it once, after the flusher has ended, whose workers
// commit as well.
func (c *committer) stopLoop() {
	c.stopped.Store(true)
	c.sending.Lock() // what was being handed over is in the queue then
	close(c.quit)
	c.sending.Unlock()
	<-c.done
}

// commitLoop commits one batch of requests after the other, until the committer is stopped and its queue is empty.
//
// After quit it goes on until the queue is empty: a commit that was begun before Close succeeds
// or fails by itself, and not because the engine was closed at that moment.
func (c *committer) commitLoop(d *Dir) {
	batch := make([]*commitRequest, 0, maxBatch)
	emptied := false
	defer func() { c.endLoop(d, emptied) }()
	for {
		batch = batch[:0]
		select {
		case r := <-c.queue:
			batch = append(batch, r)
		case <-c.quit:
			if emptied = len(c.queue) == 0; emptied {
				return
			}
		}
		c.batch = batch // endLoop answers it, if the goroutine is ended from here on
		c.pause.letOthersCome(c.queue, d.hook)
		c.pause.last = d.commitAndAnswer(batch)
	}
}

// endLoop fails the directory, unless the queue was emptied: the goroutine was ended in the middle then, by a
// function that a transaction calls; the transaction may be half done, and nobody would commit the next ones.
// Every waiting caller is answered.
func (c *committer) endLoop(d *Dir, emptied bool) {
	defer close(c.done)
	if emptied {
		return
	}
	c.stopped.Store(true)
	d.mu.Lock()
	err := d.failForGood(errCommitterEnded)
	d.mu.Unlock()
	for _, r := range c.batch { // those that have an answer take no other
		r.answerLate(fmt.Errorf("%w: %w", ErrUnknown, err))
	}
	for !c.sending.TryLock() { // somebody hands over, and waits perhaps while the queue is full
		c.refuseQueued(err)
		runtime.Gosched()
	}
	c.sending.Unlock()
	c.refuseQueued(err)
}

var errCommitterEnded = errors.New("the goroutine that commits was ended")

// refuseQueued refuses what is in the queue.
func (c *committer) refuseQueued(err error) {
	for {
		select {
		case r := <-c.queue:
			r.answerLate(err)
		default:
			return
		}
	}
}

// answerLate answers a request that may have its answer already.
func (r *commitRequest) answerLate(err error) {
	select {
	case r.answer <- err:
	default:
	}
}

// gatherBatch adds the requests that wait.
//
// It is called with the lock, so it takes what has come while the transaction before this one was
// made: the longer a sync takes, the more share the next one. It never waits.
func (c *committer) gatherBatch(batch []*commitRequest) []*commitRequest {
	bytes := 0
	for _, r := range batch {
		bytes += r.bytes
	}
	for len(batch) < maxBatch && bytes < maxBytes {
		select {
		case r := <-c.queue:
			batch = append(batch, r)
			bytes += r.bytes
		default:
			return batch
		}
	}
	return batch
}

// submitRequest commits a request and returns when it is durable, or has failed.
//
// submitRequest is the only way in which anything is committed in pawl.db once it is open, but
// for the last steps of Close and the entry of a base in a remote log, so that all rules of a
// transaction are in one place: [Dir.runTransaction]. It returns nil only if the request is
// durable as Options.Durability says, and has taken place once.
//
// ErrClosed says that the request was not applied, unless the error is ErrUnknown as well: then
// the log of a remote directory did not answer in time. After a panic in another caller's
// statements the directory has failed, and this call says so.
func (d *Dir) submitRequest(r *commitRequest) error {
	c := &d.committer
	// The caller commits by itself if nobody is before it and that has been so for a while. A
	// checkpoint that is due is the committer's, since its caller has the answer before it
	// begins.
	if c.waiting.Load() == 0 && d.mu.TryLock() {
		if d.dead == nil && c.isLone() && !d.needsCheckpoint() && !c.stopped.Load() {
			return d.commitAlone(r)
		}
		d.mu.Unlock()
	}
	if !c.handOver(r) {
		select {
		case <-d.failed:
			return d.Err()
		default:
			return ErrClosed
		}
	}
	return <-r.answer
}

// handOver hands a request to the goroutine, which answers it, and reports false if that has stopped.
//
// The goroutine takes what is in its queue until it has ended, so that it cannot end before a
// request that is there has its answer.
func (c *committer) handOver(r *commitRequest) bool {
	c.sending.RLock()
	defer c.sending.RUnlock()
	if c.stopped.Load() {
		return false
	}
	// From here on, other callers see that somebody waits and come into the queue as well.
	// Without that they could commit past this request again and again.
	c.waiting.Add(1)
	c.queue <- r
	return true
}

// commitAlone commits a request in the goroutine of its caller, and unlocks. It leaves a
// checkpoint to the committer, which makes it when its next caller has the answer.
//
// The statements run in the goroutine of an actor, which recovers from panics of a commit. Were
// one of these recovered, the lock would be free and a transaction half done: the next caller
// would commit it with its own. So a panic here fails the directory for good.
func (d *Dir) commitAlone(r *commitRequest) error {
	defer d.mu.Unlock()
	ended := false
	defer func() {
		if !ended { // somebody may recover from the panic, with a transaction under way
			_ = d.failForGood(errors.New("a commit panicked"))
		}
	}()
	d.commitBatch([]*commitRequest{r})
	d.countFrames()
	ended = true
	return r.err
}

// updateIndex commits the statements of one caller.
//
// apply may be called twice: if a statement of another request in its batch fails, the
// transaction is rolled back and each request is made again in its own. So it must not count or
// append to anything that outlives it, but for what it sets anew each time. It runs with the
// lock, and must neither take that again nor wait for anybody.
func (d *Dir) updateIndex(apply func(*sqlite.Conn) error) error { return d.updateIndexLarge(0, apply) }

// updateLocally commits statements of one caller that a copy of the directory which follows
// it does without.
//
// Such statements are the flush's changes to the index and the log, the dropping of spills, and
// the place in a remote log: a copy has files of its own and trims by itself. On the tape of this
// directory they would drop records that the copy has in no file yet.
func (d *Dir) updateLocally(apply func(*sqlite.Conn) error) error {
	return d.submitRequest(&commitRequest{apply: apply, local: true, answer: make(chan error, 1)})
}

// updateIndexLarge commits statements that write many bytes.
//
// bytes counts against maxBytes, so that a batch does not gather many of them.
func (d *Dir) updateIndexLarge(bytes int, apply func(*sqlite.Conn) error) error {
	return d.submitRequest(&commitRequest{apply: apply, bytes: bytes, answer: make(chan error, 1)})
}

// commitAndAnswer commits a batch, with the requests that wait behind it, answers it, and returns how many they were.
//
// Everybody is answered before a checkpoint begins: a long one costs those who come next, and not
// those whose records are durable already.
func (d *Dir) commitAndAnswer(batch []*commitRequest) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	batch = d.committer.gatherBatch(batch)
	d.committer.batch = batch
	// A batch of more than one shows that runs commit at the same time: then it is the goroutine
	// that lets them come together.
	if d.committer.single.Add(1); len(batch) > 1 {
		d.committer.single.Store(0)
	}
	advances, others := d.redo.splitBatch(batch)
	d.committer.waiting.Add(-int64(len(batch)))
	for _, some := range [][]*commitRequest{advances, others} {
		if len(some) > 0 {
			d.commitBatch(some)
		}
		for _, r := range some {
			r.answer <- r.err
		}
	}
	d.committer.batch = nil
	if d.dead == nil {
		d.startCheckpoint()
	}
	return len(batch)
}

// IsCommitting reports whether a transaction or a checkpoint is under way.
//
// The engine asks it to say why its Close has not come back in time; nothing is decided by the
// answer, which may be old when it comes.
func (d *Dir) IsCommitting() bool {
	if d.mu.TryLock() {
		d.mu.Unlock()
		return false
	}
	return true
}

// A stepBack decides when the committer lets other goroutines come first.
//
// A batch answers several runs at once, and each of them has its next commit soon. Were the committer to go on at once, it
// would find the first of these, and commit it alone; behind the goroutines that can run now it finds most of them. The last
// batch tells whether runs commit side by side: a lone caller is never held up.
type stepBack struct {
	last    int // requests of the last batch
	crowded int // for how many more batches it leaves out to step back
}

// While other goroutines compute and never step back themselves, Go gives each of them 10 ms at a time, and the committer
// would wait for all of them once more for each batch.
const (
	stepsBack   = 2                     // at most, the second if the first one brought somebody
	maxStepBack = 15 * time.Millisecond // that took longer: the processors are crowded
	crowdedFor  = 64                    // batches
)

// letOthersCome steps back, behind all goroutines that can run now, if the last batch had several requests.
func (s *stepBack) letOthersCome(queue <-chan *commitRequest, hook *testhook.Hook) {
	if s.crowded > 0 {
		s.crowded--
		return
	}
	if s.last <= 1 {
		return
	}
	begin := time.Now()
	for range stepsBack {
		n := len(queue)
		runtime.Gosched()
		if hook.Hit("commit.back"); len(queue) == n {
			break
		}
	}
	if time.Since(begin) > maxStepBack {
		s.crowded = crowdedFor
	}
}
