package store

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// Bounds of the group commit. The requests that one transaction takes are a batch.
const (
	maxQueue = 1024    // requests that wait; more callers block
	maxBatch = 512     // requests in one transaction
	maxBytes = 1 << 20 // after which a transaction takes no further request
)

// A committer is the goroutine that commits for all runs. Who commits alone does so in
// a goroutine of its own: two hand-overs would take as long as the commit.
type committer struct {
	queue   chan *commitRequest
	quit    chan struct{} // closed by stop
	done    chan struct{} // closed when the goroutine has ended
	waiting atomic.Int64  // requests handed to the goroutine that are in no transaction yet
	single  int           // transactions of one request since the last one of more; guarded by Dir.mu
}

// alone is after how many transactions of one request each the next caller commits by
// itself. Where several runs commit at the same time, the goroutine lets more of them come
// together than callers would that find nobody before them.
const alone = 16

// A commitRequest has the statements that one caller wants committed.
type commitRequest struct {
	apply  func(*sqlite.Conn) error // statements; a *refusal has written nothing
	local  bool                     // they concern this copy of the directory alone
	bytes  int                      // that they write, about, where it may be much
	answer chan error               // of capacity 1
	err    error
}

// A refusal is an error of one request that leaves the transaction as it was.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// refuseRequest returns the error of a request that is refused.
func refuseRequest(format string, args ...any) error { return &refusal{fmt.Errorf(format, args...)} }

func (c *committer) startLoop(d *Dir) {
	c.queue = make(chan *commitRequest, maxQueue)
	c.quit = make(chan struct{})
	c.done = make(chan struct{})
	go c.commitLoop(d) // until stop
}

// stopLoop commits what is queued and ends the goroutine.
func (c *committer) stopLoop() {
	close(c.quit)
	<-c.done
}

// commitLoop commits one batch of requests after the other, until the committer is stopped and its queue is empty.
func (c *committer) commitLoop(d *Dir) {
	defer close(c.done)
	batch := make([]*commitRequest, 0, maxBatch)
	for {
		batch = batch[:0]
		select {
		case r := <-c.queue:
			batch = append(batch, r)
		case <-c.quit:
			if len(c.queue) == 0 {
				return
			}
		}
		d.commitAndAnswer(batch)
	}
}

// gatherBatch adds the requests that wait.
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
func (d *Dir) submitRequest(r *commitRequest) error {
	c := &d.committer
	if c.waiting.Load() == 0 && d.mu.TryLock() {
		if d.dead == nil && c.single >= alone && !d.needsCheckpoint() && !c.isStopped() {
			return d.commitAlone(r)
		}
		d.mu.Unlock()
	}
	c.waiting.Add(1)
	select {
	case c.queue <- r:
	case <-c.done:
		c.waiting.Add(-1)
		return ErrClosed
	}
	select {
	case err := <-r.answer:
		return err
	case <-c.done:
	}
	select {
	case err := <-r.answer:
		return err
	default:
		return ErrClosed // it came too late to be taken
	}
}

func (c *committer) isStopped() bool {
	select {
	case <-c.quit:
		return true
	default:
		return false
	}
}

// commitAlone commits a request in the goroutine of its caller, and unlocks. It leaves a
// checkpoint to the committer, which makes it when its next caller has the answer.
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
func (d *Dir) updateIndex(apply func(*sqlite.Conn) error) error { return d.updateIndexLarge(0, apply) }

// updateLocally commits statements of one caller that a copy of the directory which follows
// it does without.
func (d *Dir) updateLocally(apply func(*sqlite.Conn) error) error {
	return d.submitRequest(&commitRequest{apply: apply, local: true, answer: make(chan error, 1)})
}

// updateIndexLarge commits statements that write many bytes.
func (d *Dir) updateIndexLarge(bytes int, apply func(*sqlite.Conn) error) error {
	return d.submitRequest(&commitRequest{apply: apply, bytes: bytes, answer: make(chan error, 1)})
}

// commitAndAnswer commits a batch, with the requests that wait behind it, and answers it.
func (d *Dir) commitAndAnswer(batch []*commitRequest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	batch = d.committer.gatherBatch(batch)
	d.committer.waiting.Add(-int64(len(batch)))
	if d.committer.single++; len(batch) > 1 {
		d.committer.single = 0
	}
	d.commitBatch(batch)
	for _, r := range batch {
		r.answer <- r.err
	}
	if d.dead == nil {
		d.startCheckpoint()
	}
}

// IsCommitting reports whether a transaction or a checkpoint is under way.
func (d *Dir) IsCommitting() bool {
	if d.mu.TryLock() {
		d.mu.Unlock()
		return false
	}
	return true
}

// commitBatch commits a batch in one transaction, or each request in its own if a
// statement of one fails.
func (d *Dir) commitBatch(batch []*commitRequest) {
	err := d.runTransaction(batch)
	if err == nil || d.dead != nil || errors.Is(err, ErrUnknown) || len(batch) == 1 {
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
func (d *Dir) runTransaction(batch []*commitRequest) error {
	if d.dead != nil {
		return d.dead
	}
	if err := d.checkOwner(); errors.Is(err, ErrFenced) {
		return d.failForGood(err)
	} else if err != nil {
		return err
	}
	d.hook.Hit("commit.begin")
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
	d.counts.keepChanges()
	d.tenants.keepBytes()
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
func (d *Dir) applyAll(batch []*commitRequest) error {
	if err := d.checkFence(); err != nil {
		return err
	}
	d.counts.clearChanges()
	clear(d.tenants.changed)
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
	return d.counts.writeChanges(d.db)
}

// checkFence fails if another engine has written its epoch into pawl.db.
func (d *Dir) checkFence() error {
	found, err := index.ReadEpoch(d.db)
	if err == nil && found != d.epoch {
		err = d.failForGood(fmt.Errorf("%w: its epoch is in %s", ErrFenced, d.pathOf(indexFile)))
	}
	return err
}

// rollbackAfter undoes the transaction, unless SQLite has done so already, and returns
// the cause.
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
func (d *Dir) commitFailed(err error) error {
	err = fmt.Errorf("%w: %w", ErrUnknown, typedError(err))
	if errors.Is(err, ErrNoSpace) && d.remote == nil { // the log has it
		return d.rollbackAfter(err)
	}
	return d.failForGood(err)
}

// failForGood makes everything fail with ErrFailed from now on, and returns that. The
// lock is held.
func (d *Dir) failForGood(cause error) error {
	if d.dead == nil {
		d.dead = fmt.Errorf("%w: %w", ErrFailed, cause)
		close(d.failed)
	}
	return d.dead
}
