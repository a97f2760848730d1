package store

import (
	"errors"
	"fmt"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
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
	d.counts.keepChanges()
	d.redo.keepMoved()
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
	err = fmt.Errorf("%w: %w", ErrUnknown, typedError(err))
	if errors.Is(err, ErrNoSpace) && d.remote == nil { // the log has it
		return d.rollbackAfter(err)
	}
	return d.failForGood(err)
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
		close(d.failed)
	}
	return d.dead
}
