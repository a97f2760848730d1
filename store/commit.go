package store

import (
	"errors"
	"fmt"

	"github.com/pawl-run/pawl/internal/failpoint"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// Bounds of the group commit.
const (
	maxQueue = 1024    // requests that wait; more callers block
	maxGroup = 512     // requests in one transaction
	maxBytes = 1 << 20 // after which a transaction takes no further request
)

// A committer is the goroutine that commits for all runs.
type committer struct {
	queue chan *request
	quit  chan struct{} // closed by stop
	done  chan struct{} // closed when the goroutine has ended
}

// A request is something to be committed.
type request struct {
	apply  func(*sqlite.Conn) error // statements; a *refusal has written nothing
	bytes  int                      // that they write, about, where it may be much
	answer chan error               // of capacity 1
	err    error
}

// A refusal is an error of one request that leaves the transaction as it was.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

func refuse(format string, args ...any) error { return &refusal{fmt.Errorf(format, args...)} }

func (c *committer) start(d *Dir) {
	c.queue = make(chan *request, maxQueue)
	c.quit = make(chan struct{})
	c.done = make(chan struct{})
	go c.run(d) // until stop
}

// stop commits what is queued and ends the goroutine.
func (c *committer) stop() {
	close(c.quit)
	<-c.done
}

func (c *committer) run(d *Dir) {
	defer close(c.done)
	group := make([]*request, 0, maxGroup)
	for {
		select {
		case r := <-c.queue:
			group = c.gather(append(group[:0], r))
		case <-c.quit:
			if group = c.gather(group[:0]); len(group) == 0 {
				return
			}
		}
		d.commit(group)
	}
}

// gather adds the requests that wait.
func (c *committer) gather(group []*request) []*request {
	bytes := 0
	for _, r := range group {
		bytes += r.bytes
	}
	for len(group) < maxGroup && bytes < maxBytes {
		select {
		case r := <-c.queue:
			group = append(group, r)
			bytes += r.bytes
		default:
			return group
		}
	}
	return group
}

// do commits a request and returns when it is durable, or has failed.
func (c *committer) do(r *request) error {
	select {
	case c.queue <- r:
	case <-c.done:
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

// update commits the statements of one caller.
func (d *Dir) update(apply func(*sqlite.Conn) error) error { return d.updateLarge(0, apply) }

// updateLarge is update for statements that write many bytes.
func (d *Dir) updateLarge(bytes int, apply func(*sqlite.Conn) error) error {
	return d.committer.do(&request{apply: apply, bytes: bytes, answer: make(chan error, 1)})
}

// commit commits a group and answers it.
func (d *Dir) commit(group []*request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settle(group)
	for _, r := range group {
		r.answer <- r.err
	}
	if d.dead == nil {
		d.relieve()
	}
}

// longLog is how many frames the write-ahead log has before they are moved into
// pawl.db.
const longLog = 4000

// relieve moves what is in the write-ahead log into pawl.db when there is enough
// of it, so that the next commit begins the log anew. What is committed stays so
// if that fails; but of a disk that failed nothing is trusted any more.
func (d *Dir) relieve() {
	n, err := d.db.Written()
	if d.frames += n; err == nil && d.frames < longLog {
		return
	}
	d.frames = 0
	if err == nil {
		err = d.indexError(d.db.Script(`PRAGMA wal_checkpoint(PASSIVE)`))
	}
	if err == nil {
		return
	}
	err = fmt.Errorf("checkpoint: %w", err)
	d.options.Logger.Error("the log cannot be moved into the index", "file", d.at(indexFile), "error", err)
	if !errors.Is(err, ErrNoSpace) {
		_ = d.die(err) // whoever comes next is told
	}
}

// settle commits a group in one transaction, or each request in its own if a
// statement of one fails.
func (d *Dir) settle(group []*request) {
	err := d.transact(group)
	if err == nil || d.dead != nil || errors.Is(err, ErrUnknown) || len(group) == 1 {
		for _, r := range group {
			if err != nil {
				r.err = err
			}
		}
		return
	}
	for i := range group {
		d.settle(group[i : i+1])
	}
}

// transact runs a group as one transaction. It leaves the refusals with the
// requests and returns what went wrong for all.
func (d *Dir) transact(group []*request) error {
	if d.dead != nil {
		return d.dead
	}
	if err := d.owns(); errors.Is(err, ErrFenced) {
		return d.die(err)
	} else if err != nil {
		return err
	}
	failpoint.Hit("commit.begin")
	if _, err := d.db.Exec(begin); err != nil {
		return d.indexError(err)
	}
	if err := d.applyAll(group); err != nil {
		return d.rollback(d.indexError(err))
	}
	failpoint.Hit("commit.inside")
	if _, err := d.db.Exec(commit); err != nil {
		return d.lost(err)
	}
	failpoint.Hit("commit.done")
	if err := d.owns(); err != nil {
		// A new owner may have read pawl.db before this was in it.
		return d.die(fmt.Errorf("%w: %w", ErrUnknown, err))
	}
	return nil
}

const (
	begin    = `BEGIN IMMEDIATE`
	commit   = `COMMIT`
	rollback = `ROLLBACK`
)

func (d *Dir) applyAll(group []*request) error {
	if err := d.checkFence(); err != nil {
		return err
	}
	for _, r := range group {
		r.err = r.apply(d.db)
		if no := (*refusal)(nil); errors.As(r.err, &no) {
			r.err = no.err
		} else if r.err != nil {
			return r.err
		}
	}
	return nil
}

// checkFence finds that another engine has written its epoch into pawl.db.
func (d *Dir) checkFence() error {
	ours := false
	err := d.db.Each(getEpoch, func(r *sqlite.Row) error {
		ours = r.Int64(0) == int64(d.epoch)
		return nil
	})
	if err == nil && !ours {
		err = d.die(fmt.Errorf("%w: its epoch is in %s", ErrFenced, d.at(indexFile)))
	}
	return err
}

// rollback undoes the transaction, which SQLite may have done already.
func (d *Dir) rollback(cause error) error {
	if _, err := d.db.Exec(rollback); err != nil && d.dead == nil {
		if _, err := d.db.Exec(begin); err != nil {
			return d.die(fmt.Errorf("cannot roll back: %w: after: %w", err, cause))
		}
		_, _ = d.db.Exec(rollback) // it has just begun
	}
	return cause
}

// lost answers a COMMIT that failed. After an error of the disk nothing that
// SQLite or the system still holds in memory can be trusted.
func (d *Dir) lost(err error) error {
	err = fmt.Errorf("%w: %w", ErrUnknown, typed(err))
	if errors.Is(err, ErrNoSpace) {
		return d.rollback(err)
	}
	return d.die(err)
}

// die makes everything fail with ErrFailed from now on, and returns that. The
// lock is held.
func (d *Dir) die(cause error) error {
	if d.dead == nil {
		d.dead = fmt.Errorf("%w: %w", ErrFailed, cause)
		close(d.failed)
	}
	return d.dead
}
