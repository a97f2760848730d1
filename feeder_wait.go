package pawl

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-run/pawl/workflow"
)

// noteFailure notes that something failed, and after which pause it is tried again.
//
// The first failure of a walk decides when the next walk begins; later ones change nothing but
// the cause that is shown. The pause doubles from walk to walk. The log is told once, when
// failing begins, and not for each message.
func (f *feeder) noteFailure(err error) {
	if f.retryAt.IsZero() {
		f.pause = min(max(2*f.pause, firstFeed), lastFeed)
		f.retryAt = time.Now().Add(f.pause)
	}
	f.mu.Lock()
	first := f.failing.IsZero()
	if first {
		f.failing = time.Now()
	}
	if !errors.Is(err, errNotTried) {
		f.failure = err.Error()
	}
	f.mu.Unlock()
	if first && !errors.Is(err, context.Canceled) { // the engine closes
		f.engine.options.Logger.Warn("pawl: events cannot be published, and will be again", "error", err)
	}
}

// noteSuccess notes that a whole walk has failed nowhere.
//
// It is called when the end of the outbox was reached without a pause being due.
func (f *feeder) noteSuccess() {
	f.pause = 0
	f.mu.Lock()
	since := f.failing
	f.failing, f.failure = time.Time{}, ""
	f.mu.Unlock()
	if !since.IsZero() {
		f.engine.options.Logger.Info("pawl: events are published again", "failed since", since)
	}
}

// waitForMore waits until there is something to do, and reports whether there will be.
//
// There are four reasons to go on: something was committed, a pause or the time of published
// rows is over, or nothing more will be committed. In the last case the walk goes on once more,
// to the end, and ends.
func (f *feeder) waitForMore(ctx context.Context) bool {
	if f.retryAt.IsZero() {
		f.noteSuccess()
	}
	if f.ending {
		return false
	}
	moved := f.engine.dir.OutboxMoved()
	// If everything fails new commits are no reason to try: only the end of the pause is.
	if f.isAway() {
		moved = nil
	}
	var wake <-chan time.Time
	if at := f.nextWake(); !at.IsZero() {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		wake = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-f.engine.dir.Failed():
		return false
	case <-f.ends:
		f.ending = true // once more, for what was committed last
	case <-moved:
		f.linger(ctx)
	case <-wake:
		f.wakeUp(time.Now())
	}
	return true
}

// nextWake returns when there is something to do by itself; zero if never.
func (f *feeder) nextWake() time.Time {
	at := f.retryAt
	if drop := f.keptSince.Add(feedKeep); len(f.kept) > 0 && (at.IsZero() || drop.Before(at)) {
		at = drop
	}
	return at
}

// wakeUp drops what is published, and begins another walk if it is time for that.
//
// Published rows are dropped before a new walk begins at the first row, or else it would read
// and publish them again.
func (f *feeder) wakeUp(now time.Time) {
	retry := !f.retryAt.IsZero() && !now.Before(f.retryAt)
	if retry {
		f.retryAt = time.Time{}
	}
	if gone := f.dropKept(); !gone || !retry {
		return // what is published and not gone would be published again
	}
	f.after, f.failed = 0, 0
	f.walks++
	f.before, f.held = f.held, map[workflow.RunID]bool{}
}

// linger gives others the time to commit as well.
//
// Commits come in bursts: a page of many rows costs as much as one of a single row.
func (f *feeder) linger(ctx context.Context) {
	timer := time.NewTimer(feedLinger)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.ends:
	case <-ctx.Done():
	}
}
