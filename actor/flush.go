package actor

import (
	"fmt"
)

// maxUnflushed is how many bytes of a run's records wait for a flush at most.
const maxUnflushed = 128 << 20

// roomyFactor times as many bytes as usual wait where few others do: a run of large values then often ends before its file is
// written for the first time, and it is written once.
const roomyFactor = 4

// flushIfDue flushes the committed records when there are enough of them, or at once. The file is written anew each
// time, so enough is as much as all that was flushed before: the cost of flushing stays in proportion to the length
// of the run, up to as much as one run may keep in memory. The log has the committed records, and a load takes them
// from there: a flush only shortens the next load, and frees the log. So nobody waits for it, and while one is
// under way no other begins. After one that has failed the next comes with twice as much, or when the run has ended: a
// run that leaves does not wait for it.
func (a *Actor) flushIfDue(now bool) {
	if a.flush != nil || a.fresh {
		return
	}
	records, bytes, roomy := a.store.Unflushed()
	if f := a.failed; f != nil && !a.state.Status.Final() && (now || records < 2*f.records && bytes < 2*f.bytes) {
		return
	}
	enough := min(max(a.options.FlushBytes, a.flushedBytes), maxUnflushed)
	if roomy {
		enough = max(enough, roomyFactor*a.options.FlushBytes)
	}
	if !now && records < max(a.options.FlushRecords, a.flushedRecords) && bytes < enough {
		return
	}
	a.flushedRecords, a.flushedBytes = a.flushedRecords+records, a.flushedBytes+bytes
	events := a.events
	a.events, a.fresh = nil, true
	// A run that has ended gets no further records: its actor leaves, and a load or purge of the run waits for the
	// file. Should that fail, the log has the records.
	if a.state.Status.Final() {
		at := a.currentPlace()
		a.store.Flush(a.state.TakeChanges(), events, func(err error) {
			if err != nil {
				a.options.Fault(at, fmt.Errorf("file the run: %w", err))
			}
		})
		return
	}
	f := &flush{records: records, bytes: bytes, done: make(chan struct{})}
	a.flush = f
	// The changes are rows that nobody modifies: the actor goes on with its state while they are written.
	a.store.Flush(a.state.TakeChanges(), events, func(err error) {
		f.err = err
		close(f.done)
		a.Nudge()
	})
}

// A flush is one that is under way. err is set when done is closed.
type flush struct {
	records int
	bytes   int64
	done    chan struct{}
	err     error
}

// flushAndStop flushes what is committed, so that the next activation is quick. Nothing depends on it.
func (a *Actor) flushAndStop() error {
	a.awaitFlush()
	a.flushIfDue(true)
	return nil
}

// noteFlush notes how a flush went, if one has ended. Records that could not be flushed stay in the log; the state is
// loaded again, since it no longer knows what its file lacks.
func (a *Actor) noteFlush() error {
	if a.flush == nil {
		return nil
	}
	select {
	case <-a.flush.done:
	default:
		return nil
	}
	if a.awaitFlush() {
		return nil
	}
	return a.activateRun()
}

// awaitFlush waits for a flush that is under way, and reports whether that, if there was one, has succeeded. A failure
// is reported and not made good here, as noteFlush does it: the caller loads the run, or ends.
func (a *Actor) awaitFlush() (ok bool) {
	f := a.flush
	if f == nil {
		return true
	}
	a.flush = nil
	<-f.done
	a.failed = nil
	if f.err != nil {
		a.failed = f
		a.flushedRecords, a.flushedBytes = a.flushedRecords-f.records, a.flushedBytes-f.bytes
		a.options.Fault(a.currentPlace(), fmt.Errorf("file the run: %w", f.err))
	}
	return f.err == nil
}
