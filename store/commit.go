package store

import (
	"errors"
	"fmt"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
)

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
